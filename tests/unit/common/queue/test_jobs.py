"""Jobs: the states of opcodes and what follows for the job (job-queue design; luxid.md section 4)."""

import itertools

import pytest

from common.errors import Conflict
from common.ids import JobId
from common.queue.jobs import (
    EVENTS,
    FINAL,
    Job,
    JobOp,
    JobState,
    OpEvent,
    apply_event,
    end_job,
    job_state,
    replace_op,
    set_priority,
)

S = JobState
NOW = (1_700_000_000, 5)


def op(state: JobState = S.QUEUED, **changes: object) -> JobOp:
    return JobOp({"OP_ID": "OP_TEST_DUMMY"}, state, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], S.SUCCESS),
        ([S.QUEUED, S.QUEUED], S.QUEUED),
        ([S.WAITING, S.QUEUED], S.WAITING),
        ([S.SUCCESS, S.RUNNING], S.RUNNING),
        ([S.SUCCESS, S.QUEUED], S.QUEUED),
        ([S.SUCCESS, S.SUCCESS], S.SUCCESS),
        ([S.SUCCESS, S.ERROR, S.ERROR], S.ERROR),
        ([S.CANCELED, S.CANCELED], S.CANCELED),
        ([S.CANCELING, S.QUEUED], S.CANCELING),
        ([S.SUCCESS, S.CANCELED], S.CANCELED),
    ],
)
def test_the_state_of_a_job_follows_from_its_opcodes(states: list[JobState], expected: JobState) -> None:
    assert job_state(states) is expected


def test_no_event_leads_out_of_a_final_state() -> None:
    for state, event in itertools.product(FINAL, OpEvent):
        with pytest.raises(Conflict):
            apply_event(op(state), event, NOW)


def test_every_state_that_is_not_final_can_fail_and_be_canceled() -> None:
    for state in set(JobState) - FINAL:
        assert EVENTS[state][OpEvent.FAILED] is S.ERROR
        assert EVENTS[state][OpEvent.CANCELED] is S.CANCELED


def test_every_state_is_reached_from_queued() -> None:
    reached = {S.QUEUED}
    while more := {target for state in reached for target in EVENTS[state].values()} - reached:
        reached |= more

    assert reached == set(JobState)


def test_an_opcode_gets_its_times_as_it_goes() -> None:
    waiting = apply_event(op(), OpEvent.PICKED, (1, 0))
    running = apply_event(waiting, OpEvent.LOCKED, (2, 0))
    ended = apply_event(running, OpEvent.SUCCEEDED, (3, 0), "done")

    assert (ended.start_at, ended.exec_at, ended.end_at) == ((1, 0), (2, 0), (3, 0))
    assert ended.result == "done"


def test_an_opcode_whose_locks_were_free_starts_and_executes_at_once() -> None:
    running = apply_event(op(), OpEvent.LOCKED, NOW)

    assert (running.state, running.start_at, running.exec_at) == (S.RUNNING, NOW, NOW)


def test_ending_a_job_keeps_what_had_ended_and_ends_the_rest() -> None:
    job = Job(JobId(7), (op(S.SUCCESS, result="kept"), op(S.RUNNING), op(), op()))

    ended = end_job(job, OpEvent.FAILED, NOW, ["died", "preceding"])

    assert [(o.state, o.result) for o in ended.ops] == [
        (S.SUCCESS, "kept"),
        (S.ERROR, "died"),
        (S.ERROR, "preceding"),
        (S.ERROR, "preceding"),
    ]
    assert ended.end_at == NOW
    assert ended.is_final


def test_the_priority_of_a_job_is_that_of_its_most_urgent_opcode_left() -> None:
    job = Job(JobId(7), (op(S.SUCCESS, priority=-10), op(priority=5), op(priority=0)))

    assert job.priority == 0
    assert set_priority(job, -10).priority == -10
    assert set_priority(job, 10).ops[0].priority == -10
    assert Job(JobId(7), (op(S.ERROR, priority=-10),)).priority == 0


def test_the_first_opcode_to_start_starts_the_job() -> None:
    job = Job(JobId(7), (op(), op()))

    started = replace_op(job, 0, apply_event(job.ops[0], OpEvent.LOCKED, NOW))

    assert started.start_at == NOW
    assert started.next_index == 0
    assert job.start_at is None
