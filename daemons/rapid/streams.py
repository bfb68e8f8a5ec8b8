"""Replies without an end that is known: sent as they come, and ended within a moment after the client goes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Final

import attrs
import trio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from common.errors import GantryError
from protocol.client import Client
from protocol.rapid.events import PING_S

# seconds for which a client may take nothing of a piece
STALLED_S: Final = 60.0
# a comment of server-sent events: a quiet stream lives
PING: Final = b": ping\n\n"


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
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


@attrs.frozen
class Piecing:
    """How what comes from a daemon becomes the body of a reply."""

    headers: Mapping[str, str]
    # reads the next message as bytes of the body; None: it is not for this reader. Raises: GantryError: there is none
    read: Callable[[Client], Awaitable[bytes | None]]
    # sent when nothing has come for `PING_S`
    ping: bytes


class FeedStream(ByteStream):
    """A feed of a daemon, passed on. It ends when the daemon goes, or its reader is too slow.

    Args:
        feed: a connection for this alone, which has begun.
        first: beginning of the body.
    """

    def __init__(self, feed: Client, first: bytes, piecing: Piecing) -> None:
        self._feed = feed
        self._piecing = piecing
        self._told, told = trio.open_memory_channel[bytes](0)
        super().__init__(_with_pings(first, told, piecing.ping), piecing.headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with trio.open_nursery() as nursery:
                # a task of its own: a wait that is cut off for a ping would cost the connection
                nursery.start_soon(self._read)
                await super().__call__(scope, receive, send)
                nursery.cancel_scope.cancel()
        finally:
            self._feed.close()

    async def _read(self) -> None:
        async with self._told:
            with suppress(GantryError):
                while True:
                    if (piece := await self._piecing.read(self._feed)) is not None:
                        await self._told.send(piece)


async def _with_pings(
    first: bytes, told: "trio.MemoryReceiveChannel[bytes]", ping: bytes
) -> AsyncGenerator[bytes, None]:
    yield first
    while True:
        piece = ping
        with trio.move_on_after(PING_S):
            try:
                piece = await told.receive()
            except trio.EndOfChannel:
                return
        yield piece
