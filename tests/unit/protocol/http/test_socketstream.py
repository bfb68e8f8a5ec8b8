"""A socket as anyio's streams are."""

import socket
from collections.abc import Iterator

import anyio
import pytest
import trio
import trio.testing

from protocol.http.connections import DirectStream

pytestmark = pytest.mark.trio


@pytest.fixture
def pair() -> Iterator[tuple[DirectStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield DirectStream(ours), theirs


async def test_bytes_go_both_ways(pair: tuple[DirectStream, socket.socket]) -> None:
    stream, peer = pair
    peer.send(b"question")

    assert await stream.receive() == b"question"
    await stream.send(b"answer")
    assert peer.recv(100) == b"answer"


async def test_more_than_the_kernel_takes_waits_for_the_reader(pair: tuple[DirectStream, socket.socket]) -> None:
    stream, peer = pair
    content, found = b"x" * 2**22, 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send, content)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await stream.send(b"another")
        while found < len(content):
            await trio.lowlevel.wait_readable(peer)
            found += len(peer.recv(2**20))

    assert found == len(content)


async def test_the_end_of_the_peer_is_the_end_of_the_stream(pair: tuple[DirectStream, socket.socket]) -> None:
    stream, peer = pair
    peer.close()

    with pytest.raises(anyio.EndOfStream):
        await stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"too late")


async def test_closing_ends_who_reads(pair: tuple[DirectStream, socket.socket]) -> None:
    stream, _ = pair

    async def read() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await stream.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.send(b"too late")
    await stream.aclose()
