"""What a filter says of the state decides which jobs need not be looked at."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from common.ids import JobId
from common.query.qlang import Expression
from common.queue.jobs import Job, JobOp, JobState
from common.words.filters.jobfilter import job_filter
from daemons.luxid.core.query.jobs import possible_states
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.handlers.queries import JobRows

SUCCESS, ERROR, RUNNING, WAITING = JobState.SUCCESS, JobState.ERROR, JobState.RUNNING, JobState.WAITING
ALL = frozenset(JobState)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status=error", {ERROR}),
        ("status=waiting", {WAITING}),
        ("status=running | status=waiting", {RUNNING, WAITING}),
        ("not (status=success | status=error)", ALL - {SUCCESS, ERROR}),
        ("status=error & summary=~web", {ERROR}),
        ("status=error | summary=~web", ALL),
        ("not (status=error & summary=~web)", ALL),
        ("not (status=error | summary=~web)", ALL - {ERROR}),
        ("status=~^s", {SUCCESS}),
        ("status=running & status=error", set()),
        ("summary=~web", ALL),
        ("id > 7", ALL),
    ],
)
def test_states_in_which_a_job_may_pass(text: str, expected: set[JobState]) -> None:
    assert possible_states(Expression.from_wire(job_filter(text, 0.0, None))) == expected


def test_without_a_filter_all_pass() -> None:
    assert possible_states(None) == ALL


def test_a_mistake_is_left_to_the_query() -> None:
    assert possible_states(Expression.from_wire([">", "status", 7])) == ALL


class Table:
    """A table of jobs that notes which ones are read, and has none."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: list[int] = []

    def ids(self) -> list[JobId]:
        return [JobId(number) for number in range(1, self.count + 1)]

    async def get_many(self, job_ids: Sequence[JobId], *, is_lenient: bool) -> list[None]:
        self.read += job_ids
        return [None for _ in job_ids]


class NoArchive:
    def find_archived(self, job_id: JobId) -> None:
        return None


async def read_of(table: Table, queue: JobQueue, states: frozenset[JobState]) -> list[int]:
    rows = JobRows(cast(Any, table), cast(Any, NoArchive()), cast(Any, None), queue)
    async for _ in rows.every(archived=False, states=states):
        pass
    return table.read


@pytest.mark.trio
async def test_jobs_that_have_ended_in_other_states_are_not_read() -> None:
    table, queue = Table(1000), JobQueue(1, 1, lambda _: None)
    for job_id in table.ids():
        queue.ended.put(job_id, ERROR if job_id % 100 == 0 else SUCCESS)
    queue.ended.forget(JobId(7))

    # one has not ended
    assert await read_of(table, queue, ALL - {SUCCESS}) == [7, *range(100, 1001, 100)]


@pytest.mark.trio
@pytest.mark.parametrize(
    ("states", "expected"),
    [({RUNNING}, [1, 2]), ({RUNNING, ERROR}, [1, 2, 1000]), ({ERROR}, [1, 2, 1000]), ({WAITING}, [1, 2, 3])],
)
async def test_queued_jobs_are_not_looked_at_for_others(states: set[JobState], expected: list[int]) -> None:
    table, queue = Table(1000), JobQueue(2, 2, lambda _: None)
    queue.end(JobId(1000), ERROR)
    for number in range(1, 1000):
        depends = {"depends": [[2, ["success"]]]} if number == 3 else {}
        queue.add(Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY", **depends}),)))
    assert queue.decide(0.0).start == (1, 2)

    assert await read_of(table, queue, frozenset(states)) == expected
