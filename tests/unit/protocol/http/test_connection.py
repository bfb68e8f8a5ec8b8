"""HTTP on one connection: how often it sends, and when it ends."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from protocol.http.connection import HttpConnection, Serving
from protocol.streamsocket import StreamSocket

KEEP_ALIVE_S = 10.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
Send = Callable[[dict[str, Any]], Awaitable[None]]
pytestmark = pytest.mark.trio


class CountedSocket(StreamSocket):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.sent: list[bytes] = []

    async def send(self, content: bytes) -> None:
        self.sent.append(content)
        await super().send(content)


@attrs.frozen
class Client:
    sock: trio.socket.SocketType
    sent: list[bytes]
    connection: HttpConnection

    async def call(self, request: bytes, end: bytes) -> bytes:
        """Send a request; return what comes until these bytes."""
        await self.sock.send(request)
        return await self.read_until(end)

    async def read_until(self, end: bytes) -> bytes:
        found = b""
        while not found.endswith(end):
            piece = await self.sock.recv(2**20)
            assert piece, f"the connection was closed after {found[-200:]!r}"
            found += piece
        return found


@asynccontextmanager
async def connected(app: Callable[[Any, Any, Send], Awaitable[None]]) -> AsyncIterator[Client]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    wire = CountedSocket(theirs)
    connection = HttpConnection(Serving(app, KEEP_ALIVE_S, is_dated=False), wire, {})
    with trio.socket.from_stdlib_socket(ours) as sock:
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await connection.run()
                wire.close()

            nursery.start_soon(serve)
            yield Client(sock, wire.sent, connection)
            nursery.cancel_scope.cancel()
    wire.close()


def replying(body: bytes, *headers: tuple[bytes, bytes]) -> Callable[[Any, Any, Send], Awaitable[None]]:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        told = headers or ((b"content-length", str(len(body)).encode()),)
        await send({"type": "http.response.start", "status": 200, "headers": told})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return app


async def test_a_small_reply_is_sent_at_once() -> None:
    async with connected(replying(b"hello")) as client:
        for _ in range(3):
            assert await client.call(GET, b"hello") == b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello"

        assert len(client.sent) == 3


async def test_a_large_body_is_not_copied_behind_its_head() -> None:
    body = b"x" * 2**18 + b"end"
    async with connected(replying(body)) as client:
        assert (await client.call(GET, b"end")).endswith(body)

        assert [piece[:4] for piece in client.sent] == [b"HTTP", b"xxxx"]


async def test_a_request_for_the_head_alone_gets_it() -> None:
    async with connected(replying(b"hello")) as client:
        found = await client.call(GET.replace(b"GET", b"HEAD"), b"\r\n\r\n")

        assert b"content-length: 5" in found
        assert await client.call(GET, b"hello")


async def test_a_reply_without_a_body_is_sent() -> None:
    async with connected(replying(b"", (b"content-length", b"0"))) as client:
        assert await client.call(GET, b"\r\n\r\n")
        assert await client.call(GET, b"\r\n\r\n")


async def test_a_stream_begins_before_its_first_piece() -> None:
    goes_on = trio.Event()

    async def app(scope: Any, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": b"piece", "more_body": False})

    async with connected(app) as client:
        assert b"200" in await client.call(GET, b"\r\n\r\n")
        goes_on.set()
        assert b"piece" in await client.read_until(b"0\r\n\r\n")


async def test_a_body_that_looks_like_a_head_is_sent() -> None:
    body = b"HTTP/1.1 200 \r\ncontent-length: 7\r\n\r\n"
    async with connected(replying(body)) as client:
        found = await client.call(GET, body)

        assert found.count(b"HTTP/1.1") == 2


async def test_the_clock_of_idleness_stands_still_while_a_request_is_under_way(mock_clock: MockClock) -> None:
    goes_on = trio.Event()

    async def app(scope: Any, receive: Any, send: Send) -> None:
        await goes_on.wait()
        await replying(b"hello")(scope, receive, send)

    async def wait(seconds: float) -> None:
        await wait_all_tasks_blocked()
        mock_clock.jump(seconds)
        await wait_all_tasks_blocked()

    async with connected(app) as client:
        await wait(KEEP_ALIVE_S - 1)
        await client.sock.send(GET)
        await wait(10 * KEEP_ALIVE_S)
        goes_on.set()
        await client.read_until(b"hello")
        await wait(KEEP_ALIVE_S - 1)
        await client.call(GET, b"hello")

        await wait(KEEP_ALIVE_S + 1)
        assert await client.sock.recv(10) == b""


async def test_the_end_of_the_server_ends_an_idle_connection_at_once_and_a_busy_one_after_its_reply() -> None:
    goes_on, has_begun = trio.Event(), trio.Event()

    async def app(scope: Any, receive: Any, send: Send) -> None:
        has_begun.set()
        await goes_on.wait()
        await replying(b"hello")(scope, receive, send)

    async with connected(app) as idle:
        idle.connection.stop()
        assert await idle.sock.recv(10) == b""
    async with connected(app) as busy:
        await busy.sock.send(GET)
        await has_begun.wait()
        busy.connection.stop()
        goes_on.set()
        await busy.read_until(b"hello")
        assert await busy.sock.recv(10) == b""


async def test_no_request_is_carried_out_whose_reply_the_end_of_idleness_cuts_off(mock_clock: MockClock) -> None:
    for _ in range(40):
        carried_out = 0

        async def app(scope: Any, receive: Any, send: Send) -> None:
            nonlocal carried_out
            carried_out += 1
            await replying(b"hello")(scope, receive, send)

        async with connected(app) as client:
            await client.call(GET, b"hello")
            await wait_all_tasks_blocked()

            # at the same instant a request comes, and the pause is over
            os.write(client.sock.fileno(), GET)
            mock_clock.jump(KEEP_ALIVE_S)
            told = b""
            with suppress(ConnectionResetError):
                told = await client.sock.recv(2**20)

        assert carried_out == 1 + told.endswith(b"hello")


async def test_an_application_cancelled_before_its_head_is_sent_is_not_answered_for() -> None:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        assert cancelled.cancelled_caught

    async with connected(app) as client:
        await client.sock.send(GET)

        assert await client.sock.recv(1) == b""


async def test_an_application_that_fails_is_answered_for() -> None:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        raise LookupError

    async with connected(app) as client:
        found = await client.call(GET, b"500 Internal Server Error\n")

        assert found.startswith(b"HTTP/1.1 500 ")
        assert await client.sock.recv(1) == b""


async def test_an_application_that_fails_within_its_reply_ends_the_connection() -> None:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        raise LookupError

    async with connected(app) as client:
        assert (await client.call(GET, b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await client.sock.recv(1) == b""


async def test_what_is_no_request_is_refused() -> None:
    async with connected(replying(b"hello")) as client:
        assert (await client.call(b"\0\r\n\r\n", b"400 Bad Request\n")).startswith(b"HTTP/1.1 400 ")
        assert await client.sock.recv(1) == b""


@pytest.mark.parametrize("path", [b"/%ff", b"/%", b"/a%2"])
async def test_a_path_that_cannot_be_read_is_refused(path: bytes) -> None:
    async with connected(replying(b"hello")) as client:
        assert await client.call(b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path, b"400 Bad Request\n")


async def test_headers_that_do_not_end_are_cut_off(mock_clock: MockClock) -> None:
    async with connected(replying(b"hello")) as client:
        await client.sock.send(GET[:-2])
        await wait_all_tasks_blocked()
        mock_clock.jump(KEEP_ALIVE_S)

        assert (await client.read_until(b"408 Request Timeout\n")).startswith(b"HTTP/1.1 408 ")
        assert await client.sock.recv(1) == b""


async def test_a_body_is_read_as_it_comes_and_then_the_end_of_the_client() -> None:
    told: list[Any] = []
    is_over = trio.Event()

    async def app(scope: Any, receive: Any, send: Send) -> None:
        told.append(dict(scope["headers"]))
        while told[-1].get("type") != "http.disconnect":
            told.append(await receive())
        is_over.set()

    async with connected(app) as client:
        await client.sock.send(b"POST /a?b HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\ncontent-length: 4\r\n\r\nab")
        await wait_all_tasks_blocked()
        await client.sock.send(b"cd")
        await wait_all_tasks_blocked()
        client.sock.shutdown(socket.SHUT_WR)
        await is_over.wait()

    assert told == [
        {b"host": b"x", b"content-length": b"4"},
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"cd", "more_body": True},
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_body_that_is_no_body_is_refused() -> None:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        assert (await receive())["type"] == "http.disconnect"

    async with connected(app) as client:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        assert await client.call(head + b"zz\r\n", b"400 Bad Request\n")


async def test_a_body_that_nobody_has_read_ends_the_connection() -> None:
    async with connected(replying(b"hello")) as client:
        await client.call(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n", b"hello")
        assert await client.sock.recv(1) == b""

    # this one has come with its headers
    async with connected(replying(b"hello")) as client:
        for _ in range(2):
            await client.call(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nabcd", b"hello")


async def test_who_waits_to_be_asked_for_his_body_is_asked() -> None:
    async def app(scope: Any, receive: Any, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await replying(b"hello")(scope, receive, send)

    async with connected(app) as client:
        head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        assert (await client.call(head, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        assert (await client.call(b"ab", b"hello")).startswith(b"HTTP/1.1 200 ")


async def test_requests_in_advance_are_answered_one_after_the_other() -> None:
    async with connected(replying(b"hello")) as client:
        await client.sock.send(GET * 3)
        client.sock.shutdown(socket.SHUT_WR)

        found = b""
        while piece := await client.sock.recv(2**20):
            found += piece

    assert found.count(b"hello") == 3
