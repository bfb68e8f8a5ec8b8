"""Batches at the shell: list, info, and --batch in the other verbs. Source: everyday.md d, j."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from protocol.luxi.jobs import CancelJobs
from tests.cli.command import Ended, normalised
from tests.cli.fakeluxid import FakeJob, FakeLuxid
from tests.cli.programhost import ProgramHost

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


@pytest.fixture
def job(host: ProgramHost, tmp_path: Path) -> Job:
    return partial(host.run, "gnt-job", "--root", tmp_path)


def member(job_id: int, place: int, host: str, status: str, **more: Any) -> FakeJob:
    batch = ["gantry:batch", f"id=b1;place={place};jobs=4;at-most=2;failures=3;each=host", 1]
    terms = ["gantry:terms", json.dumps({"name": f"backup-{host}", "labels": {"host": host}}), 1]
    ops = [{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "reason": [batch, terms]}]
    return FakeJob(job_id, status, ops=ops, summary=["RUN_COMMAND(true)"], batch="b1", user="ada", **more)


@pytest.fixture
def luxid(start_luxid: Start) -> FakeLuxid:
    return start_luxid(
        FakeJob(4),
        member(5, 1, "web1", "success", output="one\ntwo\n"),
        member(6, 2, "web2", "error", output="three\n"),
        member(7, 3, "web3", "running"),
        FakeJob(8, "success", batch="b2"),
    )


def test_the_list_tells_state_and_counts_of_each_batch(luxid: FakeLuxid, job: Job) -> None:
    ended = job("batch", "list")

    lines = [" ".join(line.split()) for line in normalised(ended.out).splitlines()]
    assert lines[0] == "BATCH STATE JOBS AGE USER COUNTS NAME"
    assert lines[1].split("TIME ")[1] == "ada 1 ok, 1 failed, 1 running backup-{host}"
    assert lines[1].startswith("b1 active 4 ")
    assert lines[2].startswith("b2 success 1 ")


def test_info_names_what_failed_first_and_counts_what_is_not_there(luxid: FakeLuxid, job: Job) -> None:
    ended = job("batch", "info", "b1")

    assert normalised(ended.out).splitlines() == [
        "Batch b1: active (1 ok, 1 failed, 1 running)",
        "  Name: backup-{host}",
        "  Jobs: 3, ids 5 to 7",
        "  Not found: 1 jobs, which were refused at their submission or deleted",
        "  Submitted: CLOCK by ada",
        "  At once: at most 2",
        "  Stops: after more than 3 failures",
        "  job 6  web2  error",
        "  job 7  web3  running",
    ]


def test_json_has_counts_and_jobs(luxid: FakeLuxid, job: Job) -> None:
    (told,) = json.loads(job("batch", "info", "--output", "json", "b1").out)

    assert told["counts"] == {"success": 1, "error": 1, "running": 1}
    assert (told["state"], told["size"], told["at_most"], told["each"]) == ("active", 4, 2, ["host"])
    assert told["jobs"][1] == {"id": 6, "status": "error", "element": "web2"}


def test_an_unknown_batch_is_told(luxid: FakeLuxid, job: Job) -> None:
    for verb in (("batch", "info", "b9"), ("wait", "--batch", "b9"), ("output", "--batch", "b9")):
        assert (job(*verb).code, "there is no batch 'b9'" in job(*verb).err) == (1, True)
    # the jobs without a batch are none
    ended = job("batch", "info", "")
    assert (ended.code, "'' is no batch; 'gnt-job batch list' shows all" in ended.err) == (2, True)


def test_list_and_cancel_take_a_batch(luxid: FakeLuxid, job: Job) -> None:
    assert [row["id"] for row in json.loads(job("list", "--batch", "b1", "--output", "json").out)] == [5, 6, 7]
    assert job("cancel", "--batch", "b1", "--force").code == 0
    assert [call.job_ids for call in luxid.calls if isinstance(call, CancelJobs)] == [(7,)]


def test_output_of_a_batch_begins_with_its_values(luxid: FakeLuxid, job: Job) -> None:
    luxid.jobs[7].status = "success"

    assert job("output", "--batch", "b1").out == "web1  one\nweb1  two\nweb2  three\n"


def test_waiting_for_a_batch_is_waiting_for_its_jobs(luxid: FakeLuxid, job: Job) -> None:
    luxid.jobs[7].status = "success"

    ended = job("wait", "--batch", "b1")

    assert ended.code == 1
    assert "job 6" in ended.err
    assert "job 5" not in ended.err


def test_prev_is_a_batch_of_the_last_submission(luxid: FakeLuxid, host: ProgramHost, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "GANTRY_SESSION": "s"}
    run = partial(host.run, "gnt-job", "--root", tmp_path, env=env)
    run("run", "--each", "n=1..3", "--", "true")

    assert [row["id"] for row in json.loads(run("list", "--batch", "PREV", "--output", "json").out)] == [9, 10, 11]
    assert run("batch", "info", "PREV") == Ended(1, "", "error: the last submission, job 9, is not a batch\n")
    luxid.jobs[9].batch = luxid.jobs[10].batch = "b7"
    assert run("batch", "info", "PREV").out.startswith("Batch b7: active (2 queued)\n")
