"""Replies without an end that is known: sent as they come, and ended within a moment after the client goes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Final

import trio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from common.errors import GantryError
from protocol.client import Client
from protocol.http.body import until_gone
from protocol.rapid.events import PING_S

# seconds for which a client may take nothing of a piece
STALLED_S: Final = 60.0
# headers of a stream of server-sent events, and a comment in it: a quiet stream lives
EVENT_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    # nginx would collect events otherwise
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}
PING: Final = b": ping\n\n"

Push = Callable[[bytes], Awaitable[None]]


def server_sent(event_id: str, name: str, data: bytes) -> bytes:
    """An event on the wire. Args: data: JSON, in one line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), name.encode(), data)


class ByteStream(StreamingResponse):
    """A reply whose body is what a generator gives.

    Starlette's own waits for the next send to see that the client has gone, which for a quiet stream may be never.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]) -> None:
        super().__init__(pieces, headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_gone, receive, nursery.cancel_scope)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # HEAD wants no body, and must not wait for the end of one
            if scope["method"] == "HEAD" or await self._send_pieces(send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            # a reply without its end makes the server close the connection
            nursery.cancel_scope.cancel()

    async def _send_pieces(self, send: Send) -> bool:
        """Send all pieces; return False as soon as the client takes none for too long."""
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                with trio.move_on_after(STALLED_S) as patience:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if patience.cancelled_caught:
                    return False
        return True


async def _cancel_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    await until_gone(receive)
    scope.cancel()


class PushedStream(ByteStream):
    """A reply whose pieces are pushed by a task of its own, until that has ended.

    Args:
        run: that task, called with what pushes a piece. It is cancelled when the client goes.
        first: beginning of the body.
        ping: sent when nothing has come for `PING_S`.
    """

    def __init__(
        self,
        run: Callable[[Push], Awaitable[None]],
        headers: Mapping[str, str],
        *,
        first: bytes = b"",
        ping: bytes = PING,
    ) -> None:
        self._run = run
        self._pushed, pushed = trio.open_memory_channel[bytes](0)
        super().__init__(_with_pings(first, pushed, ping), headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._push_all)
            await super().__call__(scope, receive, send)
            nursery.cancel_scope.cancel()

    async def _push_all(self) -> None:
        async with self._pushed:
            await self._run(self._pushed.send)


class RelayedFeed(PushedStream):
    """A feed of a daemon, passed on. It ends when the daemon goes, or its reader is too slow.

    Args:
        feed: a connection for this alone, which has begun.
        read: reads the next message as bytes of the body; None: it is not for this reader. Raises: GantryError: there
            is none.
        Else as of `PushedStream`.
    """

    def __init__(
        self,
        feed: Client,
        read: Callable[[Client], Awaitable[bytes | None]],
        headers: Mapping[str, str],
        *,
        first: bytes,
        ping: bytes = PING,
    ) -> None:
        async def pass_on(push: Push) -> None:
            # a task of its own: a wait that is cut off for a ping would cost the connection
            with suppress(GantryError):
                while True:
                    if (piece := await read(feed)) is not None:
                        await push(piece)

        self._feed = feed
        super().__init__(pass_on, headers, first=first, ping=ping)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.close()


async def _with_pings(
    first: bytes, pushed: "trio.MemoryReceiveChannel[bytes]", ping: bytes
) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    while True:
        piece = ping
        with trio.move_on_after(PING_S):
            try:
                piece = await pushed.receive()
            except trio.EndOfChannel:
                return
        yield piece
