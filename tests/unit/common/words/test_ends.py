"""Why a job ended as it did. Source: DESIGN section 6, "Explain"."""

from typing import Any

import pytest

from common.words.outcome import Outcome, end_words

USERS = {1007: "mira"}


def job(status: str, *statuses: str, results: list[Any], begun: int = 1, reason: Any = ()) -> Outcome:
    count = len(statuses)
    return Outcome(
        1,
        status,
        summaries=tuple(f"OP{place}" for place in range(count)),
        statuses=statuses,
        results=tuple(results),
        ops=({"OP_ID": "OP_X", "reason": list(reason)},) * count,
        exec_stamps=tuple((1, 0) if place < begun else None for place in range(count)),
        runtime_s=1.0,
    )


def test_the_one_that_asked_for_the_end_of_a_job_with_a_process_is_named() -> None:
    ended = job("canceled", "canceled", results=["job was killed on request of user 1007"])

    words = end_words(ended, USERS.get)

    assert words == "job was killed on request of user mira"


def luxid(kind: str, text: str) -> list[list[Any]]:
    return [["gnt:user", "upgrade", 1], [f"gnt:daemon:luxid:{kind}", text, 2], ["gnt:opcode:x", "", 3]]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (job("success", "success", results=[1]), None),
        (job("running", "running", results=[None]), None),
        (job("error", "error", results=[["OpExecError", ["no space"]]]), "failed, OP0: no space"),
        (job("error", "success", "error", "error", begun=2,
             results=[1, ["OpExecError", ["no space"]], ["OpExecError", ["preceding opcode failed"]]]),
         "failed at opcode 2 of 3, OP1: no space"),
        (job("error", "error", begun=0, results=[["OpExecError", ["dependency job 3 ended with status 'error'"]]]),
         "never ran: dependency job 3 ended with status 'error'"),
        (job("error", "success", "error", begun=1, results=[1, ["OpExecError", ["dependency job 3 ended"]]]),
         "stopped before opcode 2 of 2: dependency job 3 ended"),
        (job("error", "error", results=[["OpExecError", ["'x' did not end", {"timed_out": True}]]]),
         "failed (its time was over), OP0: 'x' did not end"),
        (job("error", "error", results=[["OpExecError", ["'x' was ended", {"killed_for": "memory"}]]]),
         "failed (killed for memory), OP0: 'x' was ended"),
        (job("canceled", "canceled", begun=0, results=[None],
             reason=luxid("cancel", "canceled on request of user 1007")),
         "canceled on request of user mira"),
        (job("canceled", "canceled", begun=0, results=[None],
             reason=luxid("cancel", "canceled on request of user 4000000123")),
         "canceled on request of user 4000000123"),
        (job("canceled", "canceled", begun=0, results=[None], reason=luxid("filter", "rejected by filter rule U")),
         "rejected by filter rule U"),
        (job("canceled", "success", "canceled", begun=1, results=[1, None],
             reason=luxid("dependency", "dependency job 3 was canceled")),
         "dependency job 3 was canceled at opcode 2 of 2"),
        (job("canceled", "canceled", results=["job was canceled on request"]), "job was canceled on request"),
        (job("canceled", "canceled", begun=0, results=[None]), "canceled, it is not known by whom"),
        # what luxid leaves out for those who neither submitted the job nor are operators
        (job("canceled", "canceled", results=[None]), "canceled; why is told only to its submitter and to operators"),
        (job("error", "error", results=[None]),
         "failed, OP0: what it said is told only to its submitter and to operators"),
    ],
)  # fmt: skip
def test_each_end_has_its_words(outcome: Outcome, words: str | None) -> None:
    assert end_words(outcome, USERS.get) == words
