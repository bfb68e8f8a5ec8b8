"""What is said of a job that has ended. Source: DESIGN section 16; cli.md 1.2."""

from typing import Any

from common.queue.terms import JobTerms, terms_entry
from common.words.outcome import Outcome, describe, explain_failure

LOST: Any = ["OpExecError", ["disk full"]]


def ended(status: str, *results: Any, name: str = "") -> Outcome:
    """A job of as many opcodes; the last one has the state of the job."""
    trail = [terms_entry(JobTerms(name=name), 0).to_wire()] if name else []
    before = len(results) - 1
    return Outcome(
        7,
        status,
        summaries=tuple("ABC"[: len(results)]),
        statuses=(*["success"] * before, status),
        results=results,
        ops=({"OP_ID": "OP_TEST_DUMMY", "reason": trail}, *[{"OP_ID": "OP_TEST_DUMMY"}] * before),
        exec_stamps=(None,) * len(results),
        runtime_s=2.0,
    )


def test_a_failed_job_without_a_name_is_told_by_what_it_does() -> None:
    assert explain_failure(ended("error", LOST)) == "job 7 failed: A: disk full"


def test_a_failed_job_with_a_name_is_told_by_its_name() -> None:
    assert explain_failure(ended("error", LOST, name="verify db1")) == "job 7 (verify db1) failed: disk full"


def test_of_several_opcodes_the_failed_one_is_told_beside_the_name() -> None:
    told = explain_failure(ended("error", 1, LOST, name="nightly"))

    assert told == "job 7 (nightly) failed at opcode 2 of 2: B: disk full"


def test_other_ends_are_told_with_the_name_too() -> None:
    assert explain_failure(ended("canceled", None, name="nightly")) == "job 7 (nightly) was canceled"
    assert describe(ended("success", 1, name="nightly")) == "job 7 (nightly): success in 2.0s"
    assert describe(ended("success", 1)) == "job 7: success in 2.0s"
