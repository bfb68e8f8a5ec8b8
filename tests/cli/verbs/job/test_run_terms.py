"""`gnt-job run` with names, labels, times, holds, resources and retries; keys; PREV. Source: DESIGN section 16."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from common.queue.terms import Hold, JobTerms, Use, terms_of_trail
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs, SubmitOnce
from tests.cli.command import Ended
from tests.cli.fakeluxid import FakeJob, FakeLuxid
from tests.cli.programhost import ProgramHost

Start = Callable[..., FakeLuxid]
Job = Callable[..., Ended]


@pytest.fixture
def job(host: ProgramHost, tmp_path: Path) -> Job:
    return partial(host.run, "gnt-job", "--root", tmp_path)


@pytest.fixture
def shell(host: ProgramHost, tmp_path: Path) -> Job:
    """`gnt-job run` in a session."""

    def run(*words: str, session: str = "one") -> Ended:
        env = {"XDG_STATE_HOME": str(tmp_path / "state"), "GANTRY_SESSION": session}
        return host.run("gnt-job", "--root", tmp_path, "run", *words, "--", "true", env=env)

    return run


@pytest.fixture
def luxid(start_luxid: Start) -> FakeLuxid:
    return start_luxid()


def ops(luxid: FakeLuxid) -> list[dict[str, Any]]:
    """The opcodes of the last submission."""
    call = [each for each in luxid.calls if isinstance(each, SubmitJob | SubmitManyJobs | SubmitOnce)][-1]
    jobs = [call.job] if isinstance(call, SubmitJob) else call.jobs
    return [dict(op) for job in jobs for op in job]


def terms(op: dict[str, Any]) -> JobTerms:
    return terms_of_trail(op["reason"])


def test_terms_travel_in_the_first_opcode(luxid: FakeLuxid, job: Job) -> None:
    ended = job(
        *("run", "--name", "backup web1", "--label", "team=web", "--label", "tier=a=b", "--hold", "--reason", "wait"),
        *(
            "--begin",
            "2030-01-02 03:04Z",
            "--use",
            "licences=2",
            "--use",
            "web1:memory=4G",
            "--use",
            "kit",
            "--",
            "true",
        ),
    )

    assert ended == Ended(0, "1\n", "")
    (op,) = ops(luxid)
    assert terms(op) == JobTerms(
        "backup web1",
        {"team": "web", "tier": "a=b"},
        1_893_553_440.0,
        Hold(why="wait"),
        (Use("", "licences", 2), Use("web1", "memory", 4 * 2**30), Use("", "kit", 1)),
    )


def test_a_job_without_terms_has_no_entry(luxid: FakeLuxid, job: Job) -> None:
    job("run", "--", "true")

    assert "gantry:terms" not in [entry[0] for entry in ops(luxid)[0]["reason"]]


def test_retries_are_parameters_of_the_command(luxid: FakeLuxid, job: Job) -> None:
    job(
        *("run", "--retries", "3", "--retry-delay", "30s", "--retry-factor", "2", "--retry-max", "10m", "--rerunnable"),
        *("--retry-on", "exit=75,timeout", "--retry-on", "memory", "--fail-on", "exit=2", "--", "true"),
    )

    (op,) = ops(luxid)
    assert {key: op[key] for key in op if "retr" in key or key in ("fail_on", "rerunnable")} == {
        "retries": 3,
        "retry_delay": 30.0,
        "retry_factor": 2.0,
        "retry_max": 600.0,
        "retry_on": ["exit=75", "timeout", "memory"],
        "fail_on": ["exit=2"],
        "rerunnable": True,
    }


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--label", "team"], "'team' is not a label; write KEY=VALUE, as in team=web"),
        (["--label", "Team=web"], "label 'Team': a label is named by 1 to 63 of a-z, 0-9"),
        (["--name", " x"], "a job's name has at most 120 printable characters, no blanks around it; got ' x'"),
        (["--use", "licences=0"], "'licences=0' uses nothing; write a count of at least 1"),
        (["--use", "Licences=1"], "'Licences' names no resource; write NAME or NODE:NAME"),
        (["--use", "licences=x"], "'x' is not a size"),
        (["--begin", "soon"], "'soon' is not a time; for example 'tomorrow 02:00'"),
        (["--after-success", "a b"], "'a b' names no job; write an id, the id of a batch, or PREV"),
    ],
)
def test_terms_that_break_a_rule_are_refused_here(job: Job, words: list[str], error: str) -> None:
    ended = job("run", *words, "--", "true")

    assert (ended.code, ended.out) == (2, "")
    assert error in ended.err


def test_a_text_for_hold_is_not_taken_for_the_command(luxid: FakeLuxid, job: Job) -> None:
    refused = job("run", "--hold", "wait for Anna", "--", "true")

    assert (refused.code, refused.out, luxid.jobs) == (2, "", {})
    assert "--hold takes no text, so 'wait for Anna' would be the command" in refused.err
    for words in (["./wait for Anna"], ["--shell", "true && true"], ["--reason", "wait for Anna", "--", "true"]):
        assert job("run", "--hold", *words).code == 0


@pytest.mark.parametrize(("begin", "is_told"), [("yesterday", True), ("@1", True), ("now", False), ("in 1h", False)])
def test_a_begin_that_is_past_is_told(luxid: FakeLuxid, job: Job, begin: str, is_told: bool) -> None:
    ended = job("run", "--begin", begin, "--", "true")

    assert (ended.code, ended.out) == (0, "1\n")
    assert (f"'{begin}' is past, it was " in ended.err) == is_told
    assert is_told or ended.err == ""


def test_the_terms_of_a_file_are_kept_and_the_options_win(luxid: FakeLuxid, job: Job) -> None:
    entry = ["gantry:terms", '{"name":"old","labels":{"team":"web","day":"mon"},"uses":{"kit":1}}', 5]
    op = {"OP_ID": "OP_TEST_DUMMY", "reason": [["gnt:user", "why", 1], entry]}

    ended = job(
        "submit", "--name", "new", "--label", "day=tue", "-", stdin=json.dumps([[op, {"OP_ID": "OP_TEST_DUMMY"}]])
    )

    assert ended == Ended(0, "1\n", "")
    first, second = ops(luxid)
    assert terms(first) == JobTerms("new", {"team": "web", "day": "tue"}, uses=(Use("", "kit", 1),))
    assert [each[0] for each in first["reason"]].count("gantry:terms") == 1
    assert terms(second) == JobTerms()


def test_a_key_that_was_used_tells_the_job_of_then(luxid: FakeLuxid, job: Job) -> None:
    assert job("run", "--key", "nightly", "--", "true") == Ended(0, "1\n", "")

    assert job("run", "--key", "nightly", "--", "true") == Ended(0, "1\n", "already submitted as job 1\n")
    again = job("run", "--output", "json", "--key", "nightly", "--", "true")
    assert json.loads(again.out) == {"jobs": 1, "is_earlier": True}
    assert isinstance(luxid.calls[-1], SubmitOnce)
    assert len(luxid.jobs) == 1


def test_several_jobs_under_a_key_are_told_as_a_range(luxid: FakeLuxid, job: Job) -> None:
    jobs = json.dumps([[{"OP_ID": "OP_TEST_DUMMY"}]] * 4)
    assert job("submit", "--key", "k", "-", stdin=jobs).out == "1\n2\n3\n4\n"

    assert job("submit", "--key", "k", "-", stdin=jobs) == Ended(0, "1\n2\n3\n4\n", "already submitted as jobs 1-4\n")


def test_with_wait_the_earlier_job_is_waited_for(luxid: FakeLuxid, job: Job) -> None:
    job("run", "--key", "k", "--", "false")
    failed = ["OpExecError", ["the command ended with exit code 7", {"exit_code": 7}]]
    luxid.jobs[1] = FakeJob(1, "error", ops=[dict(op) for op in ops(luxid)], results=[failed], op_statuses=["error"])

    ended = job("run", "--wait", "--key", "k", "--", "false")

    assert ended.code == 7
    assert ended.err.startswith("already submitted as job 1\n")


def test_a_verb_of_another_program_takes_a_key_too(luxid: FakeLuxid, host: ProgramHost, tmp_path: Path) -> None:
    words = ("gnt-debug", "--root", tmp_path, "delay", "--key", "k", "--name", "pause", "--label", "a=b", "1")

    assert host.run(*words) == Ended(0, "1\n", "")
    assert host.run(*words) == Ended(0, "1\n", "already submitted as job 1\n")
    assert terms(ops(luxid)[0]) == JobTerms("pause", {"a": "b"})


def test_a_key_names_one_submission(luxid: FakeLuxid, host: ProgramHost, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"OP_ID": "OP_TEST_DUMMY"}')

    ended = host.run("gnt-debug", "--root", tmp_path, "submit-job", "--each", "--key", "k", file)

    assert ended.code == 2
    assert "--each submits several times, and --key names one submission" in ended.err


def depends(luxid: FakeLuxid) -> Any:
    return ops(luxid)[0].get("depends")


def test_prev_is_the_last_submission_of_the_session(luxid: FakeLuxid, shell: Job) -> None:
    shell()
    shell(session="other")

    assert shell("--after-failure", "PREV").out == "3\n"
    assert depends(luxid) == [[1, ["error"]]]
    assert shell("--after-success", "PREV", "--after-all", "2").out == "4\n"
    assert depends(luxid) == [[3, ["success"]], [2, ["canceled", "error", "success"]]]


def test_without_a_submission_prev_is_refused(luxid: FakeLuxid, shell: Job) -> None:
    ended = shell("--after-success", "PREV")

    assert ended.code == 1
    assert "PREV is the last submission of this session, and none is noted in '" in ended.err
    assert luxid.calls == []


def test_prev_means_the_same_for_a_submission_sent_again_under_its_key(luxid: FakeLuxid, shell: Job) -> None:
    shell()
    for _ in range(2):
        shell("--key", "k", "--after-success", "PREV")
        assert depends(luxid) == [[1, ["success"]]]

    shell("--after-success", "PREV")
    assert depends(luxid) == [[2, ["success"]]]


def test_a_folder_that_cannot_be_written_does_not_keep_from_submitting(
    luxid: FakeLuxid, shell: Job, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file")

    assert shell() == Ended(0, "1\n", "")


def test_an_old_note_that_cannot_be_removed_does_not_keep_from_noting(
    luxid: FakeLuxid, shell: Job, tmp_path: Path
) -> None:
    old = tmp_path / "state" / "gantry" / "sessions" / "old"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))

    shell()

    assert shell("--after-success", "PREV").out == "2\n"


def test_the_jobs_of_a_batch_are_waited_for_and_its_failure_is_no_one_job_s(luxid: FakeLuxid, shell: Job) -> None:
    luxid.jobs = {n: FakeJob(n, "success" if n == 6 else "running", batch="b1" if n > 4 else "") for n in range(4, 8)}

    assert shell("--after-success", "b1").code == 0
    assert depends(luxid) == [[5, ["success"]], [7, ["success"]]]
    assert "there is no batch 'b2'" in shell("--after-all", "b2").err
    ended = shell("--after-failure", "b1")
    assert ended.code == 2
    assert "--after-failure waits for the failure of one job, and b1 has 3" in ended.err


def test_a_failure_that_none_is_called_is_told_by_its_option(luxid: FakeLuxid, job: Job) -> None:
    ended = job("run", "--retries", "1", "--retry-on", "exit=75,exti=3", "--", "true")

    assert ended.code == 2
    assert ended.err.startswith("error: --retry-on: 'exti=3' names no failure of a command; write one of exit=CODE")
    assert not luxid.calls


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",) * 2,
        ("00-4bf92f3577b34da6a3ce929d0e0e4736", ""),
        ("", ""),
    ],
)
def test_the_trace_of_the_environment_stays_with_the_job(luxid: FakeLuxid, job: Job, given: str, kept: str) -> None:
    ended = job("run", "--", "true", env={"TRACEPARENT": given})

    assert ended.code == 0
    assert terms(ops(luxid)[0]).trace == kept


def test_a_plan_has_the_trace_of_the_environment(luxid: FakeLuxid, job: Job, tmp_path: Path) -> None:
    plan, parent = tmp_path / "plan.json", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    plan.write_text('{"jobs": [{"run": ["true"]}, {"run": ["true"]}]}')

    ended = job("submit", plan, env={"TRACEPARENT": parent})

    assert (ended.code, ended.err) == (0, "")
    assert [terms(op).trace for op in ops(luxid)] == [parent, parent]
