"""What a server keeps for its peers is bounded: connections, unfinished messages, unread replies (DESIGN section 4)."""

import gc
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import trio
import trio.testing

from common.access import Role
from common.errors import InvalidRequest, NotFound
from protocol.messages import Request
from protocol.peer import Peer
from protocol.serving import bounds, server
from protocol.serving.bounds import STALL_S, Budget, BudgetLimits, ConnectionLimits, Share
from protocol.serving.route import AT_ONCE_BYTES, Pieces, Route
from protocol.serving.server import ServerRules
from protocol.serving.service import BATCH_BYTES, Service
from tests.daemon.protocol.echo import EchoService, RawCaller, raw_caller, serving

pytestmark = pytest.mark.trio

KIB = 2**10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callers' user is neither root nor the server's own."""
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    monkeypatch.setattr(server, "peer_of", lambda sock: Peer(1, 4711, 4711))
    monkeypatch.setattr(server, "with_role", lambda peer, access: attrs.evolve(peer, role=Role.ADMIN))


def ganeti(method: str, *args: Any) -> bytes:
    return orjson.dumps({"method": method, "args": args})


def rpc(method: str, params: Any, call_id: Any = 1) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": call_id})


def bounded(in_all: int, per_user: int = 100, reserve: int = 0) -> ServerRules:
    return ServerRules(connections=ConnectionLimits(in_all, per_user, reserve))


def kept(per_user: int, in_all: int = 10**9) -> ServerRules:
    return ServerRules(budget=BudgetLimits(per_user, in_all))


async def crowd(path: Path, stack: AsyncExitStack, count: int) -> list[RawCaller]:
    """So many connections, each of which has been served."""
    callers = [await stack.enter_async_context(await raw_caller(path)) for _ in range(count)]
    for caller in callers:
        assert (await caller.ask(ganeti("echo", "in")))["success"] is True
    return callers


async def test_a_connection_too_many_is_told_so_in_its_own_dialect(path: Path, strangers: None) -> None:
    async with serving(path, EchoService().service, bounded(10, per_user=2)), AsyncExitStack() as stack:
        callers = await crowd(path, stack, 2)

        async with await raw_caller(path) as caller:
            reply = await caller.ask(ganeti("echo", "x"))
            assert (reply["success"], reply["error"]["code"], reply["error"]["kind"]) == (
                False,
                "unavailable",
                "too_busy",
            )
            assert "this daemon has 2 connections of user 4711, of at most 2" in reply["result"][1][0]
            assert await caller.read() is None
        async with await raw_caller(path) as caller:
            reply = await caller.ask(rpc("echo", ["x"], "id-7"))
            assert (reply["jsonrpc"], reply["id"], reply["error"]["data"]["kind"]) == ("2.0", "id-7", "too_busy")
        assert (await callers[0].ask(ganeti("echo", "still")))["result"] == "still"


async def test_a_connection_that_ends_makes_room_for_the_next(path: Path, strangers: None) -> None:
    async with serving(path, EchoService().service, bounded(10, per_user=1)):
        for _ in range(5):
            async with await raw_caller(path) as caller:
                assert (await caller.ask(ganeti("echo", "in")))["success"] is True
            await trio.testing.wait_all_tasks_blocked()


async def test_those_who_may_not_call_do_not_keep_out_those_who_may(
    path: Path, strangers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also as many users, who say nothing."""
    uids = iter(range(5000, 6000))
    async with serving(path, EchoService().service, bounded(10, per_user=3)), AsyncExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(server, "with_role", lambda peer, access: attrs.evolve(peer, uid=next(uids)))
            for _ in range(20):
                await stack.enter_async_context(await raw_caller(path))
            await trio.testing.wait_all_tasks_blocked()

        async with await raw_caller(path) as caller:
            assert (await caller.ask(ganeti("echo", "in")))["result"] == "in"


async def test_root_gets_in_where_everybody_else_is_refused(
    path: Path, strangers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(path, EchoService().service, bounded(10, reserve=2)), AsyncExitStack() as stack:
        await crowd(path, stack, 8)
        async with await raw_caller(path) as caller:
            assert (await caller.ask(ganeti("echo", "x")))["success"] is False

        monkeypatch.setattr(server, "peer_of", lambda sock: Peer(1, 0, 0))

        async with await raw_caller(path) as caller:
            assert (await caller.ask(ganeti("echo", "root")))["result"] == "root"


async def test_a_storm_of_connections_costs_no_more_than_the_bound_and_is_answered(
    path: Path, strangers: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that say nothing: at most some of them are heard out at a time."""
    async with serving(path, EchoService().service, bounded(10, per_user=1)), AsyncExitStack() as stack:
        (first,) = await crowd(path, stack, 1)
        # nothing of earlier tests is closed while it is counted
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))

        storm = [await stack.enter_async_context(await raw_caller(path)) for _ in range(100)]
        await trio.testing.wait_all_tasks_blocked()

        # the callers' own ends lie in this process, too
        assert len(os.listdir("/proc/self/fd")) - before - len(storm) == server.REFUSED_AT_ONCE
        told = storm[server.REFUSED_AT_ONCE :]
        assert {(await caller.read())["error"]["kind"] for caller in told} == {"too_busy"}
        assert (await first.ask(ganeti("echo", "still")))["result"] == "still"
    assert [record.getMessage().split()[0] for record in caplog.records] == ["connection.refused"]


async def test_unfinished_messages_of_a_user_wait_for_room_and_others_are_answered(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The first may go on to its end; the second is let in when it is through."""
    text = "x" * 300 * KIB
    async with serving(path, EchoService().service, kept(200 * KIB)), AsyncExitStack() as stack:
        first, second, third = await crowd(path, stack, 3)
        message = ganeti("echo", text)
        await first.stream.send_all(message[: 190 * KIB])
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.send, message)
            await trio.testing.wait_all_tasks_blocked(0.01)

            assert (await third.ask(ganeti("echo", "small")))["result"] == "small"
            await first.stream.send_all(message[190 * KIB :] + b"\x03")

            assert (await first.read())["result"] == text
            assert (await second.read())["result"] == text


async def test_a_message_that_stands_still_is_given_up_when_others_want_its_room(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, EchoService().service, kept(200 * KIB)), AsyncExitStack() as stack:
        first, second = await crowd(path, stack, 2)
        text = "x" * 150 * KIB
        await first.stream.send_all(ganeti("echo", text)[: 150 * KIB])
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()

        assert (await second.ask(ganeti("echo", text)))["result"] == text

        assert trio.current_time() - began <= 2 * STALL_S
        reply = await first.read()
        assert reply["error"]["kind"] == "too_busy"
        assert "others want its room" in reply["result"][1][0]


async def test_a_message_that_stands_still_is_waited_for_when_nobody_wants_its_room(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(path, EchoService().service, kept(200 * KIB)), AsyncExitStack() as stack:
        (first,) = await crowd(path, stack, 1)
        message = ganeti("echo", "x" * 150 * KIB)
        await first.stream.send_all(message[:-10])
        await trio.sleep(10 * STALL_S)

        await first.stream.send_all(message[-10:] + b"\x03")

        assert (await first.read())["success"] is True


async def test_replies_that_nobody_reads_are_bounded_and_small_ones_still_come(path: Path) -> None:
    async with serving(path, EchoService().service, kept(1024 * KIB)), AsyncExitStack() as stack:
        callers = await crowd(path, stack, 6)
        for caller in callers[:5]:
            # 500 KiB each, of which the socket takes some 200
            await caller.send(ganeti("repeat", "x" * KIB, 500))
            await trio.testing.wait_all_tasks_blocked()

        assert (await callers[5].ask(ganeti("echo", "small")))["result"] == "small"
        replies = [await caller.read() for caller in callers[:5]]

        refused = [reply for reply in replies if not reply["success"]]
        assert [reply["success"] for reply in replies[:2]] == [True, True]
        assert len(refused) == 3
        assert {reply["error"]["kind"] for reply in refused} == {"too_busy"}
        assert (await callers[0].ask(ganeti("repeat", "y" * KIB, 500)))["result"] == "y" * KIB * 500


async def test_the_oldest_share_may_always_grow_and_all_room_comes_back() -> None:
    kept = Budget(BudgetLimits(per_user=100 * KIB, in_all=250 * KIB))
    first, second, other, third = Share(1), Share(1), Share(2), Share(3)
    for share, size in ((first, 60), (second, 40), (other, 100), (third, 50)):
        assert kept.has_room(share, size * KIB)
        kept.resize(share, size * KIB)

    assert kept.total == 250 * KIB
    # the oldest of all; the oldest of a user who is below its bound, where all are over theirs; any other
    assert [kept.has_room(each, each.size + KIB) for each in (first, second, third)] == [True, False, False]
    assert all(kept.has_room(Share(uid), bounds.SMALL_BYTES) for uid in (1, 2, 3, 4))
    assert not kept.has_room(Share(4), bounds.SMALL_BYTES + 1)

    for share in (second, other, first, third):
        kept.resize(share, 0)
    assert (kept.total, kept._shares, kept._all, kept._sizes) == (0, {}, {}, {})


@attrs.frozen
class Rows(Request[list[str]]):
    METHOD = "rows"
    count: int
    # place of the one that cannot be made; none: -1
    bad: int = -1


class RowService:
    """Replies in pieces of some KiB, counted as they are made."""

    def __init__(self) -> None:
        self.made = 0
        self.service = Service([Route(Rows, self._rows, role=Role.READ)])

    async def _rows(self, call: Rows, _: Peer) -> Pieces[Any]:
        return Pieces(self._pieces(call), lambda: ["one note"] if call.count == 3 else [])

    async def _pieces(self, call: Rows) -> AsyncGenerator[bytes, None]:
        yield b"["
        for place in range(call.count):
            if place == call.bad:
                raise NotFound("a row is missing")
            self.made += 1
            yield b"," * (place > 0) + orjson.dumps("x" * 8 * KIB)
            await trio.lowlevel.checkpoint()
        yield b"]"


@pytest.fixture
async def rows(path: Path) -> AsyncIterator[RowService]:
    made = RowService()
    async with serving(path, made.service):
        yield made


async def test_a_large_reply_is_made_while_it_is_read(path: Path, rows: RowService) -> None:
    async with await raw_caller(path) as caller:
        await caller.send(ganeti("rows", 2000))
        await trio.testing.wait_all_tasks_blocked()

        # what the socket takes, and the beginning
        assert rows.made * 8 * KIB < AT_ONCE_BYTES + 1024 * KIB
        assert (await caller.read())["result"] == ["x" * 8 * KIB] * 2000
        assert (await caller.ask(rpc("rows", [2000], "a")))["id"] == "a"


async def test_a_reader_that_goes_away_ends_the_making(path: Path, rows: RowService) -> None:
    async with await raw_caller(path) as caller:
        await caller.send(ganeti("rows", 2000))
        await trio.testing.wait_all_tasks_blocked()
    await trio.testing.wait_all_tasks_blocked()

    assert rows.made < 2000


async def test_notes_come_beside_the_result(path: Path, rows: RowService) -> None:
    async with await raw_caller(path) as caller:
        assert (await caller.ask(ganeti("rows", 3)))["notes"] == ["one note"]
        assert (await caller.ask(rpc("rows", [3])))["notes"] == ["one note"]
        assert "notes" not in await caller.ask(ganeti("rows", 2))


async def test_a_failure_before_much_was_made_is_an_error_and_a_later_one_ends_the_connection(
    path: Path, rows: RowService
) -> None:
    async with await raw_caller(path) as caller:
        assert (await caller.ask(ganeti("rows", 10, 5)))["result"] == ["GenericError", ["a row is missing"]]

        await caller.send(ganeti("rows", 1000, 900))
        assert await caller.read() is None


async def test_a_batch_ends_where_its_replies_are_too_many(path: Path, rows: RowService) -> None:
    """The calls behind are refused, not carried out: 5,000 lists in one message would be one reply."""
    call = {"jsonrpc": "2.0", "method": "rows", "params": [1000], "id": 1}
    async with await raw_caller(path) as caller:
        replies = await caller.ask(orjson.dumps([call] * 20))

    limit = BATCH_BYTES // (1000 * 8 * KIB) + 1
    assert ["result" in reply for reply in replies] == [True] * limit + [False] * (20 - limit)
    assert f"exceed {BATCH_BYTES} bytes" in replies[-1]["error"]["message"]
    assert rows.made == limit * 1000


async def test_one_reply_too_large_for_a_batch_is_refused(path: Path, rows: RowService) -> None:
    call = {"jsonrpc": "2.0", "method": "rows", "params": [3000], "id": 1}
    async with await raw_caller(path) as caller:
        (reply,) = await caller.ask(orjson.dumps([call]))

    assert reply["error"]["data"]["code"] == InvalidRequest.code
    assert "send it alone" in reply["error"]["message"]
