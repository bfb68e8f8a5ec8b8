"""What becomes of a job whose process is gone (DESIGN section 11, luxid.md 5.8)."""

from itertools import chain, product

import pytest

from common.ids import JobId
from common.queue.jobs import PRECEDING_FAILED, Job, JobOp, JobState
from daemons.luxid.core.queue.recovery import Circumstances, Fate, RecoveryRequest, after_death, judge_fate

NOW = (1000, 5)
Q, W, C, R, S, E = (
    JobState.QUEUED,
    JobState.WAITING,
    JobState.CANCELING,
    JobState.RUNNING,
    JobState.SUCCESS,
    JobState.ERROR,
)


def make_job(*states: JobState) -> Job:
    return Job(JobId(7), tuple(JobOp({"OP_ID": "OP_X", "reason": [["a", "b", 1]]}, state=state) for state in states))


@pytest.mark.parametrize(
    ("states", "is_alive", "fate"),
    [
        ([S, S], False, Fate.ENDED),
        ([S, E], True, Fate.ENDED),
        ([Q, Q], False, Fate.CONTINUE),
        ([Q, Q], True, Fate.ALIVE),
        ([S, Q], False, Fate.CONTINUE),
        ([S, R], True, Fate.ALIVE),
        ([S, R], False, Fate.DEAD),
        ([W, Q], False, Fate.DEAD),
        ([C, Q], False, Fate.DEAD),
        ([E, Q], False, Fate.DEAD),
        ([E, Q], True, Fate.ALIVE),
    ],
)
def test_the_file_and_the_livelock_tell_what_a_job_is(states: list[JobState], is_alive: bool, fate: Fate) -> None:
    assert judge_fate(make_job(*states), is_alive=is_alive) is fate


def test_a_job_without_a_process_goes_on_if_it_is_not_final_and_nothing_is_under_way() -> None:
    """DESIGN section 7."""
    for states in chain.from_iterable(product(JobState, repeat=count) for count in (1, 2, 3)):
        job = make_job(*states)
        goes_on = not job.is_final and all(state.is_final or state is Q for state in states)

        assert (judge_fate(job, is_alive=False) is Fate.CONTINUE) is goes_on, states


def states_after(job: Job, ask: RecoveryRequest | None) -> list[str] | None:
    after = after_death(job, ask, NOW, 9)
    return [op.state.value for op in after.ops] if after else None


@pytest.mark.parametrize(
    ("states", "ask", "after"),
    [
        ([S, Q], None, None),
        ([S, Q], RecoveryRequest.CANCEL, ["success", "canceled"]),
        ([S, Q], RecoveryRequest.KILL, ["success", "canceled"]),
        ([S, R, Q], RecoveryRequest.KILL, ["success", "canceled", "canceled"]),
        ([C, Q], RecoveryRequest.KILL, ["canceled", "canceled"]),
        ([S, R, Q], None, ["success", "error", "error"]),
        ([S, R, Q], RecoveryRequest.CANCEL, ["success", "error", "error"]),
        ([W, Q], None, ["error", "error"]),
        ([W, Q], RecoveryRequest.CANCEL, ["canceled", "canceled"]),
        ([C, Q], None, ["canceled", "canceled"]),
        ([E, Q], None, ["error", "error"]),
        ([E, Q], RecoveryRequest.KILL, ["error", "error"]),
    ],
)
def test_what_had_ended_stays_and_the_rest_is_ended_or_goes_on(
    states: list[JobState], ask: RecoveryRequest | None, after: list[str] | None
) -> None:
    assert states_after(make_job(*states), ask) == after


def test_results_and_reasons_say_that_the_process_died() -> None:
    """luxid.md 4.4: a plain string, the same as the appended reason."""
    after = after_death(make_job(S, R, Q), None, NOW, 9)

    assert after is not None
    text = "the process of job 7 died before the job ended"
    assert [op.result for op in after.ops] == [None, text, PRECEDING_FAILED]
    assert after.ops[0].input["reason"] == [["a", "b", 1]]
    assert after.ops[1].input["reason"] == [["a", "b", 1], ["gnt:daemon:luxid:deathdetection", text, 9]]
    assert after.end_at == NOW


def test_a_killed_job_says_so() -> None:
    after = after_death(make_job(R), RecoveryRequest.KILL, NOW, 9)

    assert after is not None
    assert after.ops[0].result == "job was killed on request"
    told = after_death(make_job(R), RecoveryRequest.KILL, NOW, 9, " of user 7")
    assert told is not None
    assert told.ops[0].result == "job was killed on request of user 7"


def on_node(*states: JobState, **values: object) -> Job:
    """A job whose opcodes are commands on a node."""
    inputs = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "node": "web1", **values}
    return Job(JobId(7), tuple(JobOp(inputs, state=state) for state in states))


@pytest.mark.parametrize(
    ("job", "takes_up", "fate"),
    [
        (on_node(S, R, Q), True, Fate.TAKE_UP),
        (on_node(R), False, Fate.DEAD),
        (on_node(R, node=None), True, Fate.DEAD),
        (make_job(R), True, Fate.DEAD),
        # nothing of it has begun
        (on_node(W), True, Fate.DEAD),
        (on_node(S, Q), True, Fate.CONTINUE),
        # it is being killed
        (on_node(C, Q), True, Fate.DEAD),
        (on_node(E, R), True, Fate.DEAD),
        (on_node(S, S), True, Fate.ENDED),
    ],
)
def test_a_command_on_a_node_is_taken_up_where_there_are_nodes(job: Job, takes_up: bool, fate: Fate) -> None:
    """DESIGN section 14, "New master"."""
    assert judge_fate(job, is_alive=False, takes_up=takes_up) is fate


@pytest.mark.parametrize("ask", [None, RecoveryRequest.CANCEL])
def test_a_cancel_does_not_end_a_command_on_a_node(ask: RecoveryRequest | None) -> None:
    assert after_death(on_node(R, Q), ask, NOW, 9, circumstances=Circumstances(takes_up=True)) is None


def test_a_kill_ends_a_command_on_a_node() -> None:
    after = after_death(on_node(R, Q), RecoveryRequest.KILL, NOW, 9, circumstances=Circumstances(takes_up=True))

    assert after is not None
    assert [op.state for op in after.ops] == [JobState.CANCELED, JobState.CANCELED]
    [entry] = after.ops[0].log
    assert "may still run on node 'web1', so the job's locks are kept" in str(entry.message)


@pytest.mark.parametrize(
    ("on_failover", "has_moved", "ends"),
    [("kill", True, True), ("kill", False, False), ("leave", True, False), (None, True, False)],
)
def test_a_command_that_is_to_end_with_its_master_does(on_failover: str, has_moved: bool, ends: bool) -> None:
    job = on_node(R, on_failover=on_failover)

    after = after_death(job, None, NOW, 9, circumstances=Circumstances(takes_up=True, has_moved=has_moved))

    assert (after is not None) is ends
    if after is not None:
        assert "the master has moved" in str(after.ops[0].result)
