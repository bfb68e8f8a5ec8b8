"""Streams of events read in a task, one after the other, for a trio program.

Source: `protocol.rapid.events`.
"""

from collections.abc import AsyncGenerator
from typing import Protocol, Self

import trio

from common.errors import GantryError
from protocol.rapid.clients.eventparser import Event, EventParser
from protocol.rapid.clients.httpcall import HttpCall
from protocol.rapid.clients.news import News, read_news
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.retries import NoReply


class Streams(Protocol):
    """A client that opens streams."""

    place: Place

    def stream(self, call: HttpCall[None], parser: EventParser) -> AsyncGenerator[Event, None]: ...

    def pause_after(self, error: NoReply, attempt: int, began: float) -> float | None: ...


class Events:
    """An iterator over events."""

    def __init__(self, receive: "trio.MemoryReceiveChannel[News | Exception]") -> None:
        self._receive = receive

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> News:
        try:
            told = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        if isinstance(told, Exception):
            raise told
        return told


async def read_events(
    client: Streams, call: HttpCall[None], last_id: str, send: "trio.MemorySendChannel[News | Exception]"
) -> None:
    """Send the events of one stream after the other, at last the error that ended them."""
    async with send:
        try:
            await _read_streams(client, call, last_id, send)
        except (GantryError, OSError) as error:
            await send.send(error)


async def _read_streams(
    client: Streams, call: HttpCall[None], last_id: str, send: "trio.MemorySendChannel[News | Exception]"
) -> None:
    parser, began, attempt = EventParser(last_id), trio.current_time(), 0
    while True:
        try:
            async for event in client.stream(call, parser):
                attempt = 0
                if (news := read_news(event)) is not None:
                    await send.send(news)
            lost = NoReply(f"{client.place.name} ended the stream of events", parser.failure())
        except NoReply as error:
            lost = error
        # a stream may have been quiet for long before it broke
        began = trio.current_time() if attempt == 0 else began
        attempt += 1
        pause = client.pause_after(lost, attempt, began)
        if pause is None:
            raise lost
        await trio.sleep(pause)
        parser = EventParser(parser.last_id, parser.retry_s)
