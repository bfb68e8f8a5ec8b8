"""HTTP on one connection: how often it sends, and when it ends."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import attrs
import pytest
import trio
from anycorn import Config
from anycorn.app_wrappers import ASGIWrapper
from anycorn.typing import ASGIFramework, ConnectionState
from anycorn.worker_context import WorkerContext
from trio.testing import MockClock, wait_all_tasks_blocked

from protocol.http.connection import LeanServer
from protocol.http.connections import DirectStream

KEEP_ALIVE_S = 10.0
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
Send = Callable[[dict[str, Any]], Awaitable[None]]
pytestmark = pytest.mark.trio


class CountedStream(DirectStream):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.sent: list[bytes] = []

    async def send(self, item: bytes) -> None:
        self.sent.append(item)
        await super().send(item)


@attrs.frozen
class Client:
    sock: trio.socket.SocketType
    sent: list[bytes]
    context: WorkerContext

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
    config = Config()
    config.keep_alive_timeout, config.accesslog = KEEP_ALIVE_S, None
    config.include_date_header = config.include_server_header = False
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    stream, context = CountedStream(theirs), WorkerContext(None)
    connection = LeanServer(ASGIWrapper(cast(ASGIFramework, app)), config, context, ConnectionState({}), stream)
    with trio.socket.from_stdlib_socket(ours) as sock:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            yield Client(sock, stream.sent, context)
            nursery.cancel_scope.cancel()


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
        await idle.context.terminated.set()
        assert await idle.sock.recv(10) == b""
    async with connected(app) as busy:
        await busy.sock.send(GET)
        await has_begun.wait()
        await busy.context.terminated.set()
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
