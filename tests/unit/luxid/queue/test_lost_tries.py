"""What becomes of a command that may be run again when the process of its job has died (everyday.md b, j)."""

from typing import Any

import attrs
import pytest

from common.commands.retryrules import MOST_LOST
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import Try, next_try, tries_of, try_entry
from common.queue.terms import DeferralCause, deferral_of
from daemons.luxid.core.queue.recovery import after_lost_try, is_rerunnable

Q, W, R, S, C = JobState.QUEUED, JobState.WAITING, JobState.RUNNING, JobState.SUCCESS, JobState.CANCELING
NOW_S = 1000.0


def op(state: JobState, **values: Any) -> JobOp:
    given = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "rerunnable": True, **values}
    return JobOp(given, state=state, start_at=(990, 0), exec_at=(991, 0) if state is R else None)


def job(*ops: JobOp) -> Job:
    return Job(JobId(1), ops, livelock="/gone", process_id=7)


def lost(number: int, *, is_lost: bool = True) -> list[Any]:
    return try_entry(Try(number, 1.0, 2.0, "was lost", None, 3.0, 5, 0, is_lost)).to_wire()


@pytest.mark.parametrize(
    ("found", "may"),
    [
        (job(op(R)), True),
        (job(op(W)), True),
        (job(op(S), op(R), op(Q)), True),
        (job(op(Q)), False),  # it goes on by itself
        (job(op(C)), False),  # it was being killed
        (job(op(R, rerunnable=None)), False),
        (job(op(R, rerunnable=False)), False),
        (job(op(R, argv=5)), False),
        (job(JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "rerunnable": True}, state=R)), False),
        (job(op(S, rerunnable=True), op(R, rerunnable=None)), False),
    ],
)
def test_only_a_command_under_way_of_which_its_submitter_said_so_is_run_again(found: Job, may: bool) -> None:
    assert is_rerunnable(found) is may


def test_a_command_on_a_node_is_taken_up_and_not_run_again() -> None:
    found = job(op(R, node="web1"))

    assert not is_rerunnable(found, takes_up=True)


def test_a_lost_try_is_kept_and_not_counted() -> None:
    found = job(op(R, retries=3))

    again = after_lost_try(found, NOW_S, (812, 5))

    (kept,) = tries_of(again.ops[0])
    assert kept == Try(1, 991.0, NOW_S, "was lost with the process of its job", None, NOW_S + 1, 812, 5, True)
    assert (again.state, again.ops[0].start_at, again.ops[0].exec_at) == (Q, None, None)
    text = "try 1 of 5 was lost with the process of its job, and is not counted; it is run again"
    assert [line.message for line in again.ops[0].log] == [text]


def test_a_lost_try_is_followed_after_a_pause_that_grows() -> None:
    found, pauses = job(op(R)), []
    for _ in range(MOST_LOST):
        assert is_rerunnable(found)
        found = after_lost_try(found, NOW_S, (0, 0))
        deferral = deferral_of(found)
        assert deferral is not None
        assert deferral.cause is DeferralCause.RETRY
        pauses.append((deferral.until or 0) - NOW_S)
        found = attrs.evolve(found, ops=(attrs.evolve(found.ops[0], state=R),))

    assert pauses == [1, 2, 4, 8, 16]
    assert not is_rerunnable(found)


def test_a_try_that_failed_by_itself_ends_the_row_of_lost_ones() -> None:
    entries = [lost(number) for number in range(1, MOST_LOST + 1)]
    entries.append(lost(MOST_LOST + 1, is_lost=False))
    found = job(op(R, reason=entries))

    assert is_rerunnable(found)
    failed = next_try(after_lost_try(found, NOW_S, (0, 0)))
    assert failed is not None
    assert failed.number == MOST_LOST + 2
