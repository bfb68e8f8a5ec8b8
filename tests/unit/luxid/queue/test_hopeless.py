"""What a filter says of the state decides which ended jobs need not be read."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from common.ids import JobId
from common.query.qlang import Expression
from common.queue.jobs import JobState
from common.words.filters.jobfilter import job_filter
from daemons.luxid.core.query.jobs import hopeless_states
from daemons.luxid.core.queue.jobqueue import FinalStates
from daemons.luxid.handlers.queries import JobRows

SUCCESS, ERROR, CANCELED = JobState.SUCCESS, JobState.ERROR, JobState.CANCELED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status=error", {SUCCESS, CANCELED}),
        ("status=waiting", {SUCCESS, ERROR, CANCELED}),
        ("not (status=success | status=error)", {SUCCESS, ERROR}),
        ("status=error & summary=~web", {SUCCESS, CANCELED}),
        ("status=error | summary=~web", set()),
        ("not (status=error & summary=~web)", set()),
        ("not (status=error | summary=~web)", {ERROR}),
        ("status=~^s", {ERROR, CANCELED}),
        ("summary=~web", set()),
        ("id > 7", set()),
    ],
)
def test_states_in_which_no_job_passes(text: str, expected: set[JobState]) -> None:
    assert hopeless_states(Expression.from_wire(job_filter(text, 0.0, None))) == expected


def test_without_a_filter_all_pass() -> None:
    assert hopeless_states(None) == frozenset()


def test_a_mistake_is_left_to_the_query() -> None:
    assert hopeless_states(Expression.from_wire([">", "status", 7])) == frozenset()


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


@pytest.mark.trio
async def test_jobs_in_hopeless_states_are_not_read() -> None:
    table, ended = Table(1000), FinalStates()
    for job_id in table.ids():
        ended.put(job_id, ERROR if job_id % 100 == 0 else SUCCESS)
    ended.forget(JobId(7))
    rows = JobRows(cast(Any, table), cast(Any, NoArchive()), cast(Any, None), ended)

    assert [batch async for batch in rows.every(archived=False, without=frozenset({SUCCESS}))]

    # one has not ended
    assert table.read == [7, *range(100, 1001, 100)]
