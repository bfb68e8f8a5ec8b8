"""Streams end with their reader: one that goes, and one that takes nothing."""

from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest
import trio

from daemons.rapid.streams import STALLED_S, ByteStream

GET = {"type": "http", "method": "GET"}

Message = MutableMapping[str, Any]


class Client:
    """An ASGI server's side: it takes so many messages, and goes or not."""

    def __init__(self, takes: int) -> None:
        self.sent: list[Message] = []
        self.gone = trio.Event()
        self._takes = takes

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if len(self.sent) == self._takes:
            await trio.sleep_forever()
        self.sent.append(message)

    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]


class Pieces:
    def __init__(self, *, is_endless: bool) -> None:
        self.is_closed = False
        self._is_endless = is_endless

    async def make(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            yield b"two"
            if self._is_endless:
                await trio.sleep_forever()
        finally:
            self.is_closed = True


@pytest.mark.trio
async def test_all_pieces_are_sent_and_then_the_end(autojump_clock: trio.abc.Clock) -> None:
    client = Client(takes=9)

    await ByteStream(Pieces(is_endless=False).make(), {"x": "y"})(GET, client.receive, client.send)

    assert client.sent[0]["headers"] == [(b"x", b"y")]
    assert client.bodies() == [b"one", b"two", b""]


@pytest.mark.trio
async def test_a_quiet_stream_ends_when_its_client_goes(autojump_clock: trio.abc.Clock) -> None:
    client, pieces = Client(takes=9), Pieces(is_endless=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ByteStream(pieces.make(), {}), GET, client.receive, client.send)
        await trio.sleep(100)
        client.gone.set()

    assert pieces.is_closed
    assert client.bodies() == [b"one", b"two"]


@pytest.mark.trio
async def test_a_client_that_takes_nothing_is_dropped_without_an_end(autojump_clock: trio.abc.Clock) -> None:
    client, pieces = Client(takes=2), Pieces(is_endless=True)

    await ByteStream(pieces.make(), {})(GET, client.receive, client.send)

    assert trio.current_time() >= STALLED_S
    assert pieces.is_closed
    assert client.bodies() == [b"one"]


@pytest.mark.trio
async def test_a_head_of_an_endless_stream_ends_at_once(autojump_clock: trio.abc.Clock) -> None:
    client = Client(takes=9)

    await ByteStream(Pieces(is_endless=True).make(), {})({**GET, "method": "HEAD"}, client.receive, client.send)

    assert client.bodies() == [b""]
    assert trio.current_time() == 0
