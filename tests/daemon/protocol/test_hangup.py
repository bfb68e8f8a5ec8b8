"""A caller that goes away: what only waits for it is given up at once, what changes something is not.

Source: DESIGN section 4; `protocol.serving.service`.
"""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from common.access import Role
from common.errors import NotFound
from protocol.peer import Peer
from protocol.serving.bounds import ConnectionLimits
from protocol.serving.route import Publisher, Route, Stream
from protocol.serving.server import ServerRules
from protocol.serving.service import CallerGone, HangUps, Line, Service
from tests.daemon.protocol.echo import Echo, EchoService, Find, Wait, raw_caller, serving
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio

# what takes longer never happens
PATIENCE_S = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def echo() -> EchoService:
    return EchoService()


def ganeti(method: str, *args: Any) -> bytes:
    return orjson.dumps({"method": method, "args": args})


async def waiting(echo: EchoService, count: int) -> None:
    await wait_until_async(
        lambda: echo.waiting_count == count, what=f"{count} calls wait", state=lambda: echo.waiting_count
    )


async def test_a_wait_is_given_up_when_its_caller_has_gone(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        tasks = trio.lowlevel.current_statistics().tasks_living
        async with await raw_caller(path) as caller:
            await caller.send(ganeti("wait"))
            await waiting(echo, 1)

        await waiting(echo, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_a_waiter_that_is_killed_is_noticed(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        with _waiting_process(path) as process:
            await waiting(echo, 1)

            process.kill()

            await waiting(echo, 0)


async def test_a_caller_that_leaves_replies_unread_is_noticed(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        async with await raw_caller(path) as caller:
            await caller.send(ganeti("echo", "never read"), ganeti("wait"))
            await waiting(echo, 1)

        await waiting(echo, 0)


async def test_a_caller_with_more_calls_under_way_is_noticed_and_they_are_not_begun(
    path: Path, echo: EchoService
) -> None:
    async with serving(path, echo.service):
        async with await raw_caller(path) as caller:
            await caller.send(ganeti("wait"))
            await waiting(echo, 1)
            # unread: the server's socket is readable all the time
            await caller.send(ganeti("hold"), ganeti("wait"))
            await trio.testing.wait_all_tasks_blocked()
            assert echo.waiting_count == 1

        await waiting(echo, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert not echo.entered.is_set()
        assert echo.wait_count == 1


async def test_a_caller_that_went_before_its_second_wait_is_noticed(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service):
        async with await raw_caller(path) as caller:
            echo.release.set()
            await caller.send(ganeti("wait"))
            assert await caller.read() == {"success": True, "result": "waited"}
            echo.release = trio.Event()
            # told of the end while `hold` is being carried out, which has no ear for it
            batch = [{"jsonrpc": "2.0", "method": method, "id": 1} for method in ("hold", "wait", "echo")]
            await caller.send(orjson.dumps(batch))
            await echo.entered.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert not echo.finished.is_set()

        echo.release.set()
        with trio.fail_after(PATIENCE_S):
            await echo.finished.wait()
        echo.release = trio.Event()

        await wait_until_async(lambda: echo.wait_count == 2, what="the batch goes on")
        await waiting(echo, 0)


@pytest.mark.parametrize("how", [socket.SHUT_WR, socket.SHUT_RD])
async def test_a_caller_that_ends_one_direction_is_waited_for(path: Path, echo: EchoService, how: int) -> None:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        await caller.send(ganeti("wait"))
        await waiting(echo, 1)

        caller.stream.socket.shutdown(how)
        await trio.testing.wait_all_tasks_blocked()
        assert echo.waiting_count == 1
        echo.release.set()

        if how == socket.SHUT_WR:
            assert await caller.read() == {"success": True, "result": "waited"}
        assert await caller.read() is None


async def test_a_caller_that_ends_both_directions_has_gone(path: Path, echo: EchoService) -> None:
    async with serving(path, echo.service), await raw_caller(path) as caller:
        await caller.send(ganeti("wait"))
        await waiting(echo, 1)

        caller.stream.socket.shutdown(socket.SHUT_WR)
        caller.stream.socket.shutdown(socket.SHUT_RD)

        await waiting(echo, 0)


async def test_only_those_who_went_are_given_up_of_two_thousand(path: Path, echo: EchoService) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 5000)), hard))
    try:
        # by default some of the places are for root alone
        rules = ServerRules(connections=ConnectionLimits(reserve=0))
        async with serving(path, echo.service, rules):
            before = trio.lowlevel.current_statistics().tasks_living
            callers = [await raw_caller(path) for _ in range(2000)]
            for caller in callers:
                await caller.send(ganeti("wait"))
            await waiting(echo, 2000)
            # a waiter is its connection's task and no other
            assert trio.lowlevel.current_statistics().tasks_living == before + 2000

            for caller in callers[::2]:
                await caller.stream.aclose()
            await waiting(echo, 1000)
            echo.release.set()

            assert [await caller.read() for caller in callers[1::2]] == [{"success": True, "result": "waited"}] * 1000
            for caller in callers[1::2]:
                await caller.stream.aclose()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_wait_that_fails_says_so_to_a_caller_that_is_there(path: Path) -> None:
    async def handler(request: Find, peer: Peer) -> None:
        raise NotFound("no such thing")

    service = Service([Route(Find, handler, only_waits=True, role=Role.READ)])
    async with serving(path, service), await raw_caller(path) as caller:
        reply = await caller.ask(ganeti("find", "x"))

        assert reply["result"] == ["GenericError", ["no such thing"]]


async def test_a_service_without_a_line_waits(echo: EchoService) -> None:
    echo.release.set()

    answer = await echo.service.answer(ganeti("wait"), Peer(1, 0, 0, role=Role.FULL))

    assert orjson.loads(answer.payload or b"")["result"] == "waited"


@contextmanager
def streaming() -> Iterator[tuple[Publisher, Service]]:
    publisher = Publisher()

    async def handler(request: Wait, peer: Peer) -> Stream[str]:
        return publisher.subscribe("first")

    async def echo(request: Echo, peer: Peer) -> str:
        return request.text

    yield publisher, Service([Route(Wait, handler, role=Role.READ), Route(Echo, echo, role=Role.READ)])


async def test_a_subscriber_that_only_ended_what_it_says_is_told_on(path: Path) -> None:
    with streaming() as (publisher, service):
        async with serving(path, service):
            async with await raw_caller(path) as caller:
                assert (await caller.ask(ganeti("wait")))["result"] == "first"
                await caller.stream.send_eof()
                await trio.testing.wait_all_tasks_blocked()

                publisher.publish("event", 1)

                assert (await caller.read())["params"] == [1]
            await wait_until_async(lambda: not publisher, what="the subscriber is forgotten")


async def test_a_subscriber_that_says_more_is_dropped(path: Path) -> None:
    with streaming() as (publisher, service):
        async with serving(path, service), await raw_caller(path) as caller:
            assert (await caller.ask(ganeti("wait")))["result"] == "first"

            await caller.send(ganeti("echo", "more"))

            await wait_until_async(lambda: not publisher, what="the subscriber is forgotten")


async def test_connections_are_watched_from_their_first_wait_to_their_end() -> None:
    hang_ups = HangUps()
    ours, theirs = socket.socketpair()
    line = Line(ours, hang_ups)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang_ups.run)
        assert len(hang_ups) == 0
        await line.while_connected(trio.lowlevel.checkpoint)
        await line.while_connected(trio.lowlevel.checkpoint)
        assert len(hang_ups) == 1

        theirs.close()

        with trio.fail_after(PATIENCE_S):
            await line.hung_up()
            with pytest.raises(CallerGone):
                await line.while_connected(trio.sleep_forever)
        nursery.cancel_scope.cancel()
    line.close()
    line.close()
    assert len(hang_ups) == 0
    ours.close()
    hang_ups.close()


@contextmanager
def _waiting_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    script = (
        "import socket, sys; sock = socket.socket(socket.AF_UNIX); sock.connect(sys.argv[1]); "
        "sock.sendall(sys.argv[2].encode() + bytes([3])); sock.recv(1)"
    )
    with subprocess.Popen([sys.executable, "-c", script, path, ganeti("wait")]) as process:
        try:
            yield process
        finally:
            process.kill()
