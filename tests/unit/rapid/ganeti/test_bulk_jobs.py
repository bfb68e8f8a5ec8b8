"""All jobs with their fields are asked for in parts, so that other clients are served in between."""

from typing import Any, TypeVar

import orjson
import pytest
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.errors import RemoteError
from common.webaccess.rights import NOBODY
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.handlers import list_jobs
from protocol.luxi.queries import QueryJobs
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")


class Luxid(LuxidAlone):
    """Jobs 1 to `count`, of which some are gone since they were listed, and some cannot be read."""

    def __init__(self, count: int, gone: frozenset[int] = frozenset(), unread: frozenset[int] = frozenset()) -> None:
        self._count = count
        self._gone = gone
        self._unread = unread
        # number of jobs of each call that reads files
        self.sizes: list[int] = []
        self.notes: list[str] = []

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, QueryJobs)
        reply: Any
        if request.job_ids is None:
            assert request.fields == ("id",)
            reply = tuple((job_id,) for job_id in range(1, self._count + 1))
            return reply  # type: ignore[no-any-return]
        self.sizes.append(len(request.job_ids))
        if self._unread.intersection(request.job_ids):
            raise RemoteError("a file cannot be read", code="unavailable", wire_name="GenericError")
        reply = tuple(tuple(self._value(job_id, field) for field in request.fields) for job_id in request.job_ids)
        return reply  # type: ignore[no-any-return]

    def _value(self, job_id: int, field: str) -> object:
        return job_id if field == "id" else None if job_id in self._gone else field


async def listed(luxid: Luxid) -> list[dict[str, Any]]:
    http = HttpRequest({"type": "http", "query_string": b"bulk=1", "headers": []})
    reply = await list_jobs(Asked(http, NOBODY, luxid))
    assert isinstance(reply, Response)
    found: list[dict[str, Any]] = orjson.loads(bytes(reply.body))
    return found


@pytest.mark.trio
@pytest.mark.parametrize("count", [0, 1, 200, 1001])
async def test_all_jobs_are_listed_in_order_and_no_call_is_large(count: int) -> None:
    luxid = Luxid(count)

    assert [job["id"] for job in await listed(luxid)] == list(range(1, count + 1))
    assert max(luxid.sizes, default=0) <= 200


@pytest.mark.trio
async def test_jobs_that_are_gone_or_cannot_be_read_are_left_out() -> None:
    luxid = Luxid(500, gone=frozenset({3, 499}), unread=frozenset({250}))

    assert {job["id"] for job in await listed(luxid)} == {*range(1, 501)} - {3, 499, 250}
