"""Jobs as they are named in all verbs: ids, lists and ranges of them, and PREV."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.cli.command import Ended
from tests.cli.fakeluxid import FakeJob, FakeLuxid
from tests.cli.programhost import ProgramHost

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


@pytest.fixture
def job(host: ProgramHost, tmp_path: Path) -> Job:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "GANTRY_SESSION": "s"}
    return partial(host.run, "gnt-job", env=env)


@pytest.fixture
def luxid(start_luxid: Start) -> FakeLuxid:
    return start_luxid(*(FakeJob(each, "success", output=f"output of {each}\n") for each in range(2, 8)))


@pytest.mark.parametrize("word", ["5,6,7", "5-7", "5-6,7"])
def test_lists_and_ranges_of_ids_are_taken_by_each_verb(luxid: FakeLuxid, job: Job, tmp_path: Path, word: str) -> None:
    here = partial(job, "--root", tmp_path)

    for verb in ("list", "info", "why", "rerun", "wait"):
        ended = here(verb, "--output", "json", word, *(["--dry-run"] if verb == "rerun" else ()))
        assert (ended.code, [row["id"] for row in json.loads(ended.out)]) == (0, [5, 6, 7]), verb
    assert here("output", word).out == "5  output of 5\n6  output of 6\n7  output of 7\n"
    assert here("watch", word).code == 0
    assert here("cancel", "--dry-run", "--output", "json", word).code == 0
    assert here("archive", word) == Ended(0, "", "")
    assert [each.archived for each in luxid.jobs.values()] == [False] * 3 + [True] * 3


def test_prev_is_the_last_submission_in_each_verb(luxid: FakeLuxid, job: Job, tmp_path: Path) -> None:
    assert job("--root", tmp_path, "run", "--each", "n=1..2", "--", "true").code == 0
    for job_id in (8, 9):
        luxid.change(job_id, status="success", output="done\n")

    # the cluster may be named behind the jobs
    for verb in ("wait", "list", "info", "why"):
        ended = job(verb, "PREV", "--root", tmp_path, "--output", "json")
        assert [row["id"] for row in json.loads(ended.out)] == [8, 9], verb
    assert job("--root", tmp_path, "output", "PREV").out == "8  done\n9  done\n"
    assert job("--root", tmp_path, "watch", "PREV").code == 0
    assert job("--root", tmp_path, "run", "--after", "PREV", "--after", "2-3:error", "--", "true").out == "10\n"
    assert luxid.jobs[10].ops[0]["depends"] == [[8, ["success"]], [9, ["success"]], [2, ["error"]], [3, ["error"]]]


def test_without_a_submission_prev_is_refused(luxid: FakeLuxid, job: Job, tmp_path: Path) -> None:
    ended = job("--root", tmp_path, "wait", "PREV")

    assert ended.code == 1
    assert ended.err.startswith("error: PREV is the last submission of this session, and none is noted in '")


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("7,", "'7,' is not a job id; write one such as 7, several as 7,8 or 2-5, or PREV; 'gnt-job list' shows them"),
        ("7-x", "'7-x' is not a job id; write one such as 7, several as 7,8 or 2-5, or PREV; "),
        ("9-7", "'9-7' names no job; write the smaller id first: 7-9"),
        ("1-100001", "'1-100001' names more than 100,000 jobs; write fewer, or use --where"),
        ("1-9223372036854775808", "'1-9223372036854775808' is not a job id; the largest is 9223372036854775807"),
    ],
)
def test_what_names_no_jobs_is_2(job: Job, tmp_path: Path, word: str, error: str) -> None:
    for verb in ("wait", "list"):
        ended = job("--root", tmp_path, verb, word)

        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"error: {error}")
