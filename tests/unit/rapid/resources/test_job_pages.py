"""Pages of jobs: each job is on one of them, whatever the filter names."""

from typing import Any, TypeVar

import attrs
import pytest
from starlette.requests import Request as HttpRequest

from common.ids import JobId
from common.webaccess.rights import NOBODY
from daemons.rapid.calls import Asked
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.joblists import fetch_page
from daemons.rapid.resources.parameters import job_id_of
from protocol.luxi.queries import Query, QueryResult
from protocol.messages import Request
from protocol.rapid.jobs import JobQuery
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")


class Luxid(LuxidAlone):
    """A look-up: it has a row also for a job that does not exist."""

    def __init__(self, asked: range, there: frozenset[int]) -> None:
        self.notes: list[str] = []
        self._asked = asked
        self._there = there

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, Query)
        page = request.page
        assert page is not None
        after = page.after
        ids = [job_id for job_id in self._asked if after is None or job_id > after][: page.limit]
        rows: Any = [[(0, self._value(job_id, field)) for field in request.fields] for job_id in ids]
        reply: Any = QueryResult((), rows)
        return reply  # type: ignore[no-any-return]

    def _value(self, job_id: int, field: str) -> object:
        return job_id if field == "id" else "success" if job_id in self._there else None


@pytest.mark.trio
@pytest.mark.parametrize("limit", [1, 2, 3, 9, 10, 11])
async def test_jobs_that_do_not_exist_hide_none_of_those_after_them(limit: int) -> None:
    there = frozenset({1, 4, 5, 9})
    luxid = Luxid(range(1, 11), there)
    found: list[object] = []
    query = JobQuery(filter=["|", ["==", "id", 1], ["==", "id", 2]], fields=("id",), limit=limit, ascending=True)
    for _ in range(11):
        page = await fetch_page(luxid, query)
        found += [job["id"] for job in page.jobs]
        if page.next is None:
            break
        query = attrs.evolve(query, cursor=page.next)

    assert page.next is None
    assert found == sorted(there)


@pytest.mark.parametrize("number", [0, 2**63, 10**400])
def test_a_number_that_no_job_can_have_is_not_found(number: int) -> None:
    asked = Asked(HttpRequest({"type": "http", "path_params": {"id": number}}), NOBODY, Luxid(range(0), frozenset()))

    with pytest.raises(RequestRefused) as refused:
        job_id_of(asked)

    assert refused.value.status == 404
    assert refused.value.message == f"there is no job {str(number)[:20]}; job ids are whole numbers from 1"


def test_the_highest_number_is_a_job_id() -> None:
    asked = Asked(HttpRequest({"type": "http", "path_params": {"id": 2**63 - 1}}), NOBODY, Luxid(range(0), frozenset()))

    assert job_id_of(asked) == JobId(2**63 - 1)
