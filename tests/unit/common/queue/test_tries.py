"""The tries of an opcode, and the output of each, from a job's file (everyday.md b, j)."""

import attrs
import pytest

from common.errors import Conflict
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState, OpEvent, apply_event, replace_op
from common.queue.reasons import (
    OutputRange,
    Try,
    counted,
    lost_in_a_row,
    output_of_try,
    tries_of,
    tries_so_far,
    with_failed_try,
)

NOW = (9, 0)
COMMAND = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "reason": [["gnt:user", "why", 1]]}


def failed(number: int, output_end: int = 0, *, error_end: int = 0, is_lost: bool = False) -> Try:
    return Try(number, 1.0, 2.0, "ended with exit code 75", 75, 3.0, output_end, error_end, is_lost)


def op(*tries: Try, state: JobState = JobState.QUEUED, result: object = None) -> JobOp:
    made = JobOp(COMMAND)
    for each in tries:
        made = with_failed_try(apply_event(made, OpEvent.LOCKED, NOW), each, NOW)
    return attrs.evolve(made, state=state, result=result)


def test_a_failed_try_is_kept_and_the_opcode_has_not_begun() -> None:
    running = apply_event(JobOp(COMMAND), OpEvent.LOCKED, NOW)

    queued = with_failed_try(running, failed(1, 7), NOW)

    assert tries_of(queued) == (failed(1, 7),)
    assert queued.input["reason"][0] == ["gnt:user", "why", 1]
    assert (queued.state, queued.start_at, queued.exec_at) == (JobState.QUEUED, None, None)


def test_an_opcode_that_is_not_under_way_has_no_failed_try() -> None:
    with pytest.raises(Conflict):
        with_failed_try(JobOp(COMMAND), failed(1), NOW)


def test_lost_tries_do_not_count() -> None:
    tries = (failed(1), failed(2, is_lost=True), failed(3), failed(4, is_lost=True), failed(5, is_lost=True))

    assert (counted(tries), lost_in_a_row(tries), lost_in_a_row(tries[:3])) == (2, 2, 0)
    assert tries_of(op(*tries)) == tries


def test_each_try_has_its_part_of_the_output() -> None:
    job = Job(JobId(1), (op(failed(1, 10, error_end=3), failed(2, 25, error_end=3)),))

    assert tries_so_far(job) == 2
    assert [output_of_try(job, number) for number in range(5)] == [
        None,
        OutputRange(0, 10),
        OutputRange(10, 25),
        OutputRange(25, None),
        None,
    ]
    assert [output_of_try(job, number, is_error=True) for number in (1, 2, 3)] == [
        OutputRange(0, 3),
        OutputRange(3, 3),
        OutputRange(3, None),
    ]


def test_the_tries_of_a_later_opcode_begin_where_the_ones_before_ended() -> None:
    before = op(failed(1, 4), state=JobState.SUCCESS, result={"output_bytes": 6})
    tried = op(failed(1, 17), state=JobState.SUCCESS, result={"output_bytes": 3})
    job = Job(JobId(1), (before, tried, op(state=JobState.RUNNING)))

    assert [output_of_try(job, number) for number in (1, 2, 3)] == [OutputRange(10, 17), OutputRange(17, 20), None]


def test_the_last_try_has_the_rest_of_the_output_if_the_job_ends_with_it() -> None:
    job = Job(JobId(1), (op(failed(1, 4), state=JobState.ERROR, result=["OpExecError", ["bad"]]), op()))

    assert output_of_try(job, 2) == OutputRange(4, None)


def test_a_job_without_failed_tries_has_one() -> None:
    job = replace_op(Job(JobId(1), (op(),)), 0, op())

    assert (output_of_try(job, 1), output_of_try(job, 2)) == (OutputRange(0, None), None)
