"""Ranges of a job's output, of which the beginning may not be kept any more (RFC 9110, 14 and 15.3.7)."""

from typing import Any, TypeVar

import pytest
from starlette.requests import Request as HttpRequest

from common.webaccess.rights import NOBODY
from daemons.rapid.calls import Asked
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.jobfollowing import get_job_output
from protocol.luxi.jobs import JobOutput, ReadJobOutput
from protocol.messages import Request
from tests.support.fakes.luxidalone import LuxidAlone

R = TypeVar("R")
PRINTED = b"0123456789"
# first byte that is kept
BEGIN = 4


class Luxid(LuxidAlone):
    """The output of a job, three bytes a reply."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def luxid(self, request: Request[R]) -> R:
        assert isinstance(request, ReadJobOutput)
        start = max(request.offset, BEGIN)
        content = PRINTED[start : start + 3]
        offset = start + len(content) if content else request.offset
        reply: Any = JobOutput(content.decode("latin-1"), offset, not content)
        return reply  # type: ignore[no-any-return]


async def _part(range: str) -> tuple[bytes, str]:
    """The bytes of a range, and what the reply says that they are."""
    headers = [(b"range", range.encode())]
    http = HttpRequest({"type": "http", "query_string": b"", "headers": headers, "path_params": {"id": 7}})
    reply = await get_job_output(Asked(http, NOBODY, Luxid()))
    assert reply.status_code == 206
    return bytes(reply.body), reply.headers["content-range"]


@pytest.mark.trio
@pytest.mark.parametrize(
    ("range", "content", "told"),
    [
        ("bytes=4-5", b"45", "bytes 4-5/*"),
        ("bytes=0-5", b"45", "bytes 4-5/*"),
        ("bytes=3-4", b"4", "bytes 4-4/*"),
        ("bytes=0-9", b"456789", "bytes 4-9/10"),
        ("bytes=0-99", b"456789", "bytes 4-9/10"),
        ("bytes=0-", b"456789", "bytes 4-9/10"),
        ("bytes=6-", b"6789", "bytes 6-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"456789", "bytes 4-9/10"),
    ],
)
async def test_a_range_has_no_bytes_but_those_that_were_wanted(range: str, content: bytes, told: str) -> None:
    assert await _part(range) == (content, told)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("range", "reason"),
    [
        ("bytes=0-3", "the bytes before 4 of the output are not kept any more"),
        ("bytes=2-2", "the bytes before 4 of the output are not kept any more"),
        ("bytes=10-", "the output has no bytes from 10 on"),
        ("bytes=10-12", "the output has no bytes from 10 on"),
        ("bytes=-0", "the output has no bytes from 10 on"),
    ],
)
async def test_a_range_without_bytes_is_refused_with_its_reason(range: str, reason: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        await _part(range)

    assert (refused.value.status, refused.value.message) == (416, reason)
