"""A socket that is waited for only where that is needed."""

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from protocol.streamsocket import StreamSocket

pytestmark = pytest.mark.trio


@pytest.fixture
def pair() -> Iterator[tuple[StreamSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield StreamSocket(ours), theirs


async def test_bytes_go_both_ways(pair: tuple[StreamSocket, socket.socket]) -> None:
    wire, peer = pair
    peer.send(b"question")

    assert await wire.receive() == b"question"
    await wire.send(b"answer")
    assert peer.recv(100) == b"answer"


async def test_more_than_the_kernel_takes_waits_for_the_reader(pair: tuple[StreamSocket, socket.socket]) -> None:
    wire, peer = pair
    content, found = b"x" * 2**22, 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, content)
        await trio.testing.wait_all_tasks_blocked()
        while found < len(content):
            await trio.lowlevel.wait_readable(peer)
            found += len(peer.recv(2**20))

    assert found == len(content)


async def test_the_end_of_the_peer_is_the_end_of_its_bytes(pair: tuple[StreamSocket, socket.socket]) -> None:
    wire, peer = pair
    peer.close()

    assert await wire.receive() == b""
    with pytest.raises(BrokenPipeError):
        await wire.send(b"too late")
    wire.close()
