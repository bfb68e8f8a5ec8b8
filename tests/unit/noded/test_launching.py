"""Orders for the fork server of noded, while it dies or does not read (DESIGN section 13)."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

from common.commands.spec import CommandSpec
from daemons.noded.commands.launching import _ForkServer
from daemons.noded.commands.runnermessages import OrderResult, RunnerOrder, RunnerWord, pack_word
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio

# more than the kernel keeps for a reader that does not read
_LARGE = 8 * 2**20


@attrs.define
class _Other:
    """The fork server's ends."""

    control: socket.socket
    reports: int

    def die(self) -> None:
        self.control.close()
        os.close(self.reports)


@asynccontextmanager
async def fork_server() -> AsyncIterator[tuple[_ForkServer, _Other]]:
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    server = _ForkServer(cast(Any, None), ours, reader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.listen)
        yield server, _Other(theirs, writer)
        nursery.cancel_scope.cancel()


def order(number: int, stdin: str = "") -> RunnerOrder:
    return RunnerOrder(number=number, key=f"{number}.0.1", digest="", spec=CommandSpec(argv=("cat", stdin)))


async def test_an_order_that_waits_while_the_fork_server_dies_has_no_runner() -> None:
    words: list[RunnerWord | None] = []

    async def give(server: _ForkServer) -> None:
        words.append(await server.order(order(2)))

    async with fork_server() as (server, other), trio.open_nursery() as nursery, server._turn:

        async def is_lost() -> bool:
            return server.is_lost

        # another one is just being sent
        nursery.start_soon(give, server)
        other.die()
        await wait_until_async(is_lost, what="noded knows that the fork server has died")

    assert words == [None]


async def test_after_a_part_of_an_order_nothing_more_is_sent() -> None:
    async with fork_server() as (server, other):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.order, order(1, "x" * _LARGE))
            # it has sent what the socket takes
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert server.is_lost

        assert await server.order(order(2)) is None
        # what was sent ends in the middle, and then there is the end
        other.control.settimeout(5)
        received = 0
        while data := other.control.recv(2**20):
            received += len(data)
        assert 0 < received < _LARGE
        other.die()


async def test_a_word_ends_the_wait() -> None:
    word = RunnerWord(number=1, word=OrderResult.TOLD)
    async with fork_server() as (server, other):
        async with trio.open_nursery() as nursery:

            async def say() -> None:
                await trio.testing.wait_all_tasks_blocked(0.01)
                os.write(other.reports, pack_word(word))

            nursery.start_soon(say)
            assert await server.order(order(1)) == word
        other.die()
