"""Large replies are compressed for who takes that, within bounds; streams, ranges and pages never are."""

import gzip
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from daemons.rapid.calls import Face
from daemons.rapid.transport import compression
from daemons.rapid.transport.compression import Compression, takes_gzip

SMALL, MIDDLE, LARGE = (b"ab" * (size // 2) for size in (4000, 5000, 100_000))


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [
        ("gzip", True),
        ("GZip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("identity;q=0.5, *;q=0.1", True),
        ("", False),
        ("br", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("*;q=0", False),
        ("gzip;q=much", False),
        ("gzip;q=nan", False),
    ],
)
def test_a_client_says_whether_it_takes_gzip(header: str, is_taken: bool) -> None:
    assert takes_gzip(header) is is_taken


def request(accept: str = "gzip", client: tuple[str, int] | None = ("192.0.2.1", 5)) -> Request:
    headers = [(b"accept-encoding", accept.encode())]
    return Request({"type": "http", "method": "GET", "headers": headers, "client": client})


async def applied(
    response: Response, http: Request | None = None, face: Face = Face.OURS, by: Compression | None = None
) -> Response:
    await (by or Compression()).apply(face, http or request(), response)
    return response


@pytest.mark.trio
@pytest.mark.parametrize("body", [MIDDLE, LARGE])
async def test_a_large_reply_is_compressed_and_says_so(body: bytes) -> None:
    reply = await applied(Response(body, headers={"ETag": '"7"'}))

    assert gzip.decompress(reply.body) == body
    assert reply.headers["content-length"] == str(len(reply.body))
    assert (reply.headers["content-encoding"], reply.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert reply.headers["etag"] == 'W/"7"'


@pytest.mark.trio
async def test_who_does_not_take_it_gets_the_reply_as_it_is_and_caches_know_why() -> None:
    reply = await applied(Response(LARGE), request("br"))

    assert (reply.body, reply.headers["vary"]) == (LARGE, "Accept-Encoding")
    assert "content-encoding" not in reply.headers


@pytest.mark.trio
async def test_what_would_not_pay_or_must_not_be_is_not_compressed() -> None:
    replies = [
        await applied(Response(SMALL)),
        await applied(Response(LARGE), request(client=None)),
        await applied(Response(LARGE), face=Face.PAGE),
        await applied(Response(LARGE, 206, {"Content-Range": "bytes 0-99999/*"})),
        await applied(Response(LARGE, headers={"Content-Encoding": "br"})),
    ]

    assert [len(reply.body) for reply in replies] == [len(SMALL), *[len(LARGE)] * 4]
    assert not any("vary" in reply.headers for reply in replies)


@pytest.mark.trio
async def test_a_stream_is_left_alone() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield LARGE

    reply = await applied(StreamingResponse(pieces()))

    assert "content-encoding" not in reply.headers


@pytest.mark.trio
async def test_a_reply_that_finds_no_place_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    by, go_on = Compression(), trio.Event()

    async def slow(work: object, body: bytes, limiter: trio.CapacityLimiter) -> bytes:
        async with limiter:
            await go_on.wait()
        return b"compressed"

    monkeypatch.setattr(compression, "try_in_thread", slow)
    under_way = [Response(LARGE), Response(LARGE)]
    async with trio.open_nursery() as nursery:
        for each in under_way:
            nursery.start_soon(applied, each, None, Face.OURS, by)
        await trio.testing.wait_all_tasks_blocked()
        third = await applied(Response(LARGE), by=by)
        go_on.set()

    assert third.body == LARGE
    assert [each.body for each in under_way] == [b"compressed"] * 2
    assert (await applied(Response(LARGE), by=by)).body == b"compressed"
