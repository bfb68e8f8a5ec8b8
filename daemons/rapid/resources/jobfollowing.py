"""Follow jobs, their log and their output over one connection: luxid's feed, passed on in the caller's name.

Source: DESIGN section 15; `protocol.luxi.feed`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Final

import orjson
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from common.errors import GantryError, InvalidRequest
from common.webaccess.rights import Right
from common.wire import unstructure
from daemons.rapid.calls import Asked, Call
from daemons.rapid.events.eventlog import PING
from daemons.rapid.events.streams import ByteStream
from protocol.client import Client
from protocol.luxi.feed import CHANGES, FeedBegin, Subscribe, Topic
from protocol.rapid.events import PING_S
from protocol.rapid.following import FollowWish
from protocol.rapid.jobs import PAGE_MOST

_HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


async def follow_jobs(asked: Asked) -> Response:
    """Raises: InvalidRequest: no jobs, or too many. JobLost: there is no such job. Else as luxid's `Subscribe`."""
    wish = asked.body_as(FollowWish)
    if not 0 < len(wish.ids) <= PAGE_MOST:
        raise InvalidRequest(f"ids: 1 to {PAGE_MOST} at once, got {len(wish.ids)}")
    topics = (Topic.JOBS, Topic.REASONS) if wish.reasons else (Topic.JOBS,)
    outputs = wish.outputs or None
    feed, begun = await asked.daemons.feed(
        Subscribe(topics, wish.ids, wish.fields, wish.since, log_after=wish.log_after, outputs=outputs)
    )
    return _FeedStream(feed, begun)


def rows() -> Sequence[Call]:
    """The row."""
    return [
        Call(
            "POST",
            "/3/jobs/follow",
            follow_jobs,
            "Follow jobs, their log and output, as server-sent events in LUXI's form.",
            rights=(Right.JOBS_READ,),
            takes=FollowWish,
            gives=str,
            media_type="text/event-stream",
            errors=(404,),
            tag="events",
            only_waits=True,
        )
    ]


class _FeedStream(ByteStream):
    """The feed as events. It ends when luxid goes, or its reader is too slow.

    Args: feed: a connection for this alone, which has begun.
    """

    def __init__(self, feed: Client, begun: FeedBegin) -> None:
        self._feed = feed
        self._told, changes = trio.open_memory_channel[bytes](0)
        super().__init__(_pieces(begun, changes), _HEADERS)

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
                    method, params = await self._feed.event()
                    if method == CHANGES:
                        await self._told.send(_event(str(params[0]), CHANGES, params))


async def _pieces(begun: FeedBegin, changes: "trio.MemoryReceiveChannel[bytes]") -> AsyncGenerator[bytes, None]:
    yield _event(begun.position, "begin", unstructure(begun))
    while True:
        piece = PING
        with trio.move_on_after(PING_S):
            try:
                piece = await changes.receive()
            except trio.EndOfChannel:
                return
        yield piece


def _event(position: str, name: str, value: object) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (position.encode(), name.encode(), orjson.dumps(value))
