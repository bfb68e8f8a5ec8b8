"""Commands on several nodes, followed: a line each, and what came of them (DESIGN section 13, "Fleet")."""

import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.queue.reasons import Batch, batch_entry
from tests.cli.command import Background, Ended, argv, environment, normalised
from tests.cli.fakeluxid import AT, FakeJob, FakeLuxid
from tests.cli.test_liveview import read_all
from tests.support.wait import wait_until

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]
LATER = [AT[0] + 2, 0]
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
STOPPED = "canceled before it began, as job 42 of its batch failed"
FAILED: list[Any] = ["CommandFailed", ["'apt' ended with exit code 100 (expected 0); last output: E: no lock", {}]]


def job_on(node: str, job_id: int, place: int, **values: Any) -> FakeJob:
    entry = batch_entry(Batch("5f2c8a10b4de", place, 3, at_most=1, failures=0), 1)
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["apt"], "node": node, "reason": [entry.to_wire()]}
    return FakeJob(job_id, ops=[op], summary=["RUN_COMMAND(apt)"], **values)


def three_nodes(**first: Any) -> list[FakeJob]:
    return [job_on(f"web{place}.lab", 40 + place, place, **(first if place == 1 else {})) for place in (1, 2, 3)]


def end_them(luxid: FakeLuxid) -> None:
    """The first succeeds, the second fails, the third is canceled for that."""
    luxid.change(41, output="reading\nall is new\n", status="success", end_ts=LATER, results=[{"tail": ["all is new"]}])
    luxid.change(42, status="running", start_ts=AT)
    luxid.change(42, output="10%\r90%\nE: ", results=[FAILED])
    luxid.change(42, output="10%\r90%\nE: no lock", end_ts=LATER, status="error")
    reasons = [*luxid.jobs[43].ops[0]["reason"], ["gnt:daemon:luxid:batch", STOPPED, 1]]
    luxid.change(43, ops=[{**luxid.jobs[43].ops[0], "reason": reasons}], status="canceled", end_ts=LATER)


SUMMARY_ERRORS = f"""\
error: web2 (job 42) failed after 2.0s: 'apt' ended with exit code 100 (expected 0)
    90%
    E: no lock
web3: {STOPPED}
"""


def test_without_a_terminal_a_node_has_a_line_when_it_begins_and_when_it_has_ended(
    start_luxid: Start, tmp_path: Path
) -> None:
    luxid = start_luxid(*three_nodes(status="running", start_ts=AT))

    with Background("gnt-job", "--root", tmp_path, "watch", "41", "42", "43") as watch:
        first = watch.read_line()
        wait_until(lambda: luxid.is_waited_for(43), what="they are watched")
        end_them(luxid)
        ended = watch.end()

    assert first == "[0/3] web1  running   job 41\n"
    assert ended.out.splitlines() == [
        "[1/3] web1  success     2.0s  all is new",
        "[1/3] web2  running   job 42",
        "[2/3] web2  error       2.0s  'apt' ended with exit code 100 (expected 0); last output: E: no lock",
        f"[3/3] web3  canceled          {STOPPED}",
        "1 of 3 nodes succeeded in 2.0s, 1 failed, 1 canceled",
    ]
    assert (ended.code, ended.err) == (1, SUMMARY_ERRORS)


def test_a_terminal_of_80_columns_shows_every_node_with_its_last_line(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(*three_nodes(status="running", start_ts=AT))
    luxid.reasons = {42: [{"kind": "batch", "batch": "5", "running_count": 1, "limit": 1, "members": [41]}]}
    terminal, inside = pty.openpty()

    watch = subprocess.Popen(
        argv("gnt-job", "--root", tmp_path, "watch", "41", "42", "43"),
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment({"TERM": "xterm", "COLUMNS": "80", "LINES": "30"}),
    )
    os.close(inside)
    wait_until(lambda: luxid.is_waited_for(43), what="they are watched")
    wait_until(lambda: any(type(call).__name__ == "ExplainJobs" for call in luxid.calls), what="why they wait is asked")
    end_them(luxid)
    shown = _CONTROL.sub("", read_all(terminal))
    final = shown[shown.rindex("NODE") :].replace("\r", "")

    assert watch.wait(60) == 1
    assert re.search(r"web1 +41 +success +2\.0s +all is new *\n", final)
    assert re.search(r"web2 +42 +error +2\.0s +E: no lock *\n", final)
    assert "[####################] 3 of 3 nodes: 1 done, 1 failed, 1 canceled" in final
    assert final.endswith(f"{SUMMARY_ERRORS}1 of 3 nodes succeeded in 2.0s, 1 failed, 1 canceled\n")
    table = shown[: shown.rindex("error: web2")]
    assert max(map(len, re.split(r"[\r\n]+", table))) <= 80


def test_who_leaves_is_told_how_to_come_back(start_luxid: Start, tmp_path: Path) -> None:
    luxid = start_luxid(*three_nodes(status="running", start_ts=AT))

    with Background("gnt-job", "--root", tmp_path, "watch", "41", "42", "43") as watch:
        wait_until(lambda: luxid.is_waited_for(43), what="they are watched")
        watch.interrupt()
        left = watch.end()

    again = f"gnt-job --root {tmp_path}"
    assert left.code == 130
    assert left.err == (
        f"\nthe jobs go on; watch again with: {again} watch --batch 5f2c8a10b4de; "
        f"cancel with: {again} cancel --batch 5f2c8a10b4de\n"
    )


@pytest.mark.parametrize("verb", ["watch", "wait"])
def test_the_jobs_of_a_batch_are_named_by_it(start_luxid: Start, job: Job, verb: str) -> None:
    jobs = three_nodes()
    for each in jobs:
        each.status, each.batch = "success", "5f2c8a10b4de"
    start_luxid(*jobs, FakeJob(50))

    ended = job(verb, "--where", "batch=5f2c8a10b4de")

    assert ended.code == 0
    if verb == "watch":
        assert normalised(ended.out).endswith("3 of 3 nodes succeeded\n")


def test_a_filter_that_holds_for_no_job_is_an_error(start_luxid: Start, job: Job) -> None:
    start_luxid()

    error = "error: no job matches 'batch=x'; archived ones are found by their ids\n"
    assert job("watch", "--where", "batch=x") == Ended(1, "", error)
    assert (
        job("watch").err
        == "error: name jobs by their ids, by --batch ID, or by --where FILTER; see 'gnt-job watch --help'\n"
    )
