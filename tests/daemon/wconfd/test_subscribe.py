"""subscribe: lock and configuration changes as events on one connection (DESIGN section 8)."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio

from common.errors import RemoteError
from common.locks import LockMode, LockRequest, Owner, parse_lock
from protocol.client import Client
from protocol.serving.route import Publisher
from protocol.subscriptions import ConfigChanged, Event, HoldingsChanged, Snapshot, WconfdEvents
from protocol.wconfd.locks import FreeLocks, SubscribeToChanges, TryUpdateLocks
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.wait import PATIENCE_S

Job = Callable[[int], WireOwner]
Connect = Callable[..., Wire]
N = [["node/n", "exclusive"]]
RULE = "12345678-1234-4234-8234-123456789012"


def event(wire: Wire) -> tuple[str, Any]:
    message = wire.reply()
    assert message.keys() == {"jsonrpc", "method", "params"}
    return message["method"], message["params"]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_the_reply_is_the_state_and_what_follows_are_its_changes(
    cluster: Cluster, connect: Connect, job: Job, dialect: str
) -> None:
    call, events = connect(), connect(dialect)
    call("tryUpdateLocks", job(1), N)

    holdings, serial = events("subscribe")
    assert (holdings, serial) == ([[job(1), N]], 1)

    call("updateLocksWaiting", job(2), 0, N)
    assert event(events) == ("locksChanged", [[[job(2), []]]])
    call("freeLocks", job(1))
    assert event(events) == ("locksChanged", [[[job(1), []], [job(2), N]]])


def test_changes_of_a_moment_are_told_together_and_before_what_came_after_them(
    cluster: Cluster, connect: Connect, job: Job
) -> None:
    call, events = connect(), connect()
    _, serial = events("subscribe")

    for turn in range(20):
        call.send("tryUpdateLocks", job(turn), [[f"node/{turn}", "exclusive"]])
        call.send("freeLocks", job(turn))
    call.send("tryUpdateLocks", job(20), N)
    call.send("allocatePort")

    told: list[list[Any]] = []
    while (each := event(events))[0] == "locksChanged":
        told.append(each[1][0])
    assert each == ("configChanged", [serial + 1, False])
    # the newest rows of all owners, in fewer events than there were changes
    assert {owner[0]: held for rows in told for owner, held in rows} == {**{key: [] for key in range(20)}, 20: N}
    assert len(told) < 41


def test_what_is_told_is_durable(cluster: Cluster, connect: Connect, job: Job) -> None:
    call, events = connect(), connect()
    events("subscribe")

    for turn in range(50):
        call.send("tryUpdateLocks", job(1), [["node/n", "release" if turn % 2 else "exclusive"]])
        _, [rows] = event(events)
        on_disk = json.loads(durable_locks(cluster.paths.locks_data))[0]
        assert on_disk == [row for row in rows if row[1]]
        call.result()


def test_what_changes_nothing_is_not_told(cluster: Cluster, connect: Connect, job: Job) -> None:
    call, events = connect(), connect()
    call("tryUpdateLocks", job(1), N)
    events("subscribe")

    call("tryUpdateLocks", job(1), N)
    call("tryUpdateLocks", job(2), N)
    call("freeLocks", job(3))
    call("freeLocks", job(1))

    assert event(events) == ("locksChanged", [[[job(1), []]]])


def test_a_death_is_told(cluster: Cluster, connect: Connect, spawn: Callable[[int], Holder]) -> None:
    call, events, dying = connect(), connect(), spawn(1)
    call("tryUpdateLocks", dying.owner, N)
    events("subscribe")

    dying.kill()

    assert event(events) == ("locksChanged", [[[dying.owner, []]]])


def test_changes_of_the_configuration_are_told_with_whether_the_filters_are_others(
    cluster: Cluster, connect: Connect
) -> None:
    call, events = connect(), connect()
    _, serial = events("subscribe")

    call("replaceFilter", RULE, 0, [["jobid", [">", "id", 0]]], "PAUSE", [], 0)
    call("allocatePort")

    assert event(events) == ("configChanged", [serial + 1, True])
    assert event(events) == ("configChanged", [serial + 2, False])


def test_it_wants_a_message_of_its_own(cluster: Cluster, connect: Connect, job: Job) -> None:
    wire = connect("jsonrpc")
    message = {"jsonrpc": "2.0", "method": "subscribe", "params": []}

    wire.send_bytes(json.dumps([{**message, "id": 1}]).encode() + b"\x03")
    [reply] = wire.reply()
    wire.send_bytes(json.dumps(message).encode() + b"\x03")

    assert "takes over the connection" in reply["error"]["message"]
    assert wire("listLocks", job(1)) == []
    wire("tryUpdateLocks", job(1), N)
    assert wire("listLocks", job(1)) == N


def test_a_subscriber_that_says_anything_more_is_hung_up_on(cluster: Cluster, connect: Connect) -> None:
    events = connect()
    events("subscribe")

    events.send("echo", "hello")

    with pytest.raises((EOFError, ConnectionError)):
        events.reply()


# our own client


@pytest.fixture
async def events(cluster: Cluster) -> AsyncIterator[WconfdEvents]:
    events = WconfdEvents(cluster.paths.wconfd_socket)
    yield events
    await events.aclose()


async def next_event(events: WconfdEvents) -> Event:
    with trio.fail_after(PATIENCE_S):
        return await events.next()


@pytest.mark.trio
async def test_our_client_gets_typed_events_and_a_snapshot_after_a_restart(
    cluster: Cluster, events: WconfdEvents, connect: Connect, job: Job
) -> None:
    owner, held = Owner.from_wire(job(1)), ((parse_lock("node/n"), LockMode.EXCLUSIVE),)

    assert await next_event(events) == Snapshot((), 1)
    call = connect()
    call("tryUpdateLocks", job(1), N)
    assert await next_event(events) == HoldingsChanged(((owner, held),))
    call("allocatePort")
    assert await next_event(events) == ConfigChanged(2, False)
    await trio.to_thread.run_sync(cluster.restart, "wconfd")
    assert await next_event(events) == Snapshot(((owner, held),), 2)


@pytest.mark.trio
async def test_a_slow_subscriber_is_dropped_and_told_why_and_nobody_else_suffers(
    cluster: Cluster, events: WconfdEvents, job: Job
) -> None:
    owner = Owner.from_wire(job(1))
    # a row of almost a megabyte, so that the bound is reached soon
    many = tuple(LockRequest(parse_lock(f"node/{number:0200}"), LockMode.SHARED) for number in range(4000))
    async with Client(cluster.paths.wconfd_socket) as slow, Client(cluster.paths.wconfd_socket) as call:
        await slow.subscribe(SubscribeToChanges())
        await next_event(events)

        for _ in range(25):
            await call.call(TryUpdateLocks(owner, many))
            assert isinstance(await next_event(events), HoldingsChanged)
            await call.call(FreeLocks(owner))
            assert await next_event(events) == HoldingsChanged(((owner, ()),))

        with pytest.raises(RemoteError, match=r"too slow: \d+ bytes wait for it; subscribe again") as caught:
            await read_until_the_end(slow)
        assert caught.value.code == "unavailable"
        assert await slow.subscribe(SubscribeToChanges()) == ((), 1)


async def read_until_the_end(client: Client) -> None:
    with trio.fail_after(PATIENCE_S):
        while True:
            await client.event()


@pytest.mark.trio
async def test_a_publisher_forgets_who_has_gone_and_its_backlog_is_bounded() -> None:
    publisher = Publisher(limit=200)
    stream = publisher.subscribe(None)

    publisher.publish("first", "x" * 10)
    data, is_open = await stream.take()
    assert b'"first"' in data
    assert is_open
    for _ in range(10):
        publisher.publish("more", "x" * 100)
    data, is_open = await stream.take()
    assert b"too slow" in data
    assert b"more" not in data
    assert not is_open

    stream.close()
    assert not publisher
