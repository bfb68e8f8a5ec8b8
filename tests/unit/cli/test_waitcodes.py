"""The exit code of a tool that waits, from how the jobs ended. Source: everyday.md i."""

from typing import Any

import pytest

from cli.outcomes import wait_code
from common.words.outcome import Outcome


def job(status: str, *results: Any, op_id: str = "OP_RUN_COMMAND", has_begun: bool = True) -> Outcome:
    """A job whose opcodes have these results; the last one has the job's state, those before succeeded."""
    count = len(results)
    return Outcome(
        1,
        status,
        summaries=("X",) * count,
        statuses=(*["success"] * (count - 1), status),
        results=results,
        ops=({"OP_ID": op_id},) * count,
        exec_stamps=((1, 0) if has_begun else None,) * count,
        runtime_s=1.0,
    )


def ended(**end: Any) -> dict[str, Any]:
    return {"exit_code": None, "signal": None, "timed_out": False, **end}


def failed(**end: Any) -> list[Any]:
    return ["OpExecError", ["it failed", ended(**end)]]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (job("success", ended(exit_code=0)), 0),
        # one that was wanted: the command's own word all the same
        (job("success", ended(exit_code=3)), 3),
        (job("success", ended(exit_code=3), ended(exit_code=0)), 0),
        (job("success", None, op_id="OP_TEST_DELAY"), 0),
        (job("error", failed(exit_code=7)), 7),
        (job("error", ended(exit_code=0), failed(exit_code=7)), 7),
        # 0, where another was wanted, is no success
        (job("error", failed(exit_code=0)), 1),
        (job("error", failed(signal="SIGKILL")), 137),
        (job("error", failed(signal="SIG40")), 168),
        (job("error", failed(signal="SIGTERM", timed_out=True)), 124),
        (job("error", failed(has_begun=False)), 126),
        (job("error", ["OpPrereqError", ["cwd '/x' does not exist", "unknown_entity"]]), 126),
        (job("error", ["OpExecError", ["dependency job 3 failed"]], has_begun=False), 126),
        (job("error", ["OpExecError", ["the job process died"]]), 125),
        (job("error", ["OpExecError", ["failed as requested"]], op_id="OP_TEST_DUMMY"), 1),
        (job("canceled", "job was canceled on request"), 126),
        (job("running", None), 125),
    ],
)
def test_one_job_ends_with_the_code_of_its_command(outcome: Outcome, code: int) -> None:
    assert wait_code([outcome]) == code


def test_several_jobs_are_0_only_if_all_are_good() -> None:
    good, bad = job("success", ended(exit_code=0)), job("error", failed(exit_code=7))

    assert wait_code([good, job("success", ended(exit_code=3))]) == 0
    assert wait_code([good, bad]) == 1
    assert wait_code([good, job("canceled", "x")]) == 1


def test_the_highest_of_several_is_taken_where_it_is_asked_for() -> None:
    good, bad = job("success", ended(exit_code=0)), job("error", failed(exit_code=7))

    assert wait_code([bad, job("error", failed(exit_code=3)), good], is_highest=True) == 7
    assert wait_code([good, job("canceled", "job was canceled on request")], is_highest=True) == 126
    assert wait_code([good, good], is_highest=True) == 0
    assert wait_code([], is_highest=True) == 0
