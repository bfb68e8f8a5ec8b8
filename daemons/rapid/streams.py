"""Replies without an end that is known: sent as they come, and ended within a moment after the client goes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import trio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

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
