"""Connections to node daemons: kept, too many, hanging, paused, with renewed certificates (noded.md 2)."""

import ssl
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import trio
import trio.testing
import trustme

from common.jsontext import ascii_json
from protocol.noded.call import AnyCall, Content, Failed, FailureKind, NodeAddress, Replied, read_reply
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.client import HEAVY_BYTES, NodeClient
from protocol.noded.clients.connection import CONNECT_S, MAX_CONNECTIONS, NodeConnection
from protocol.noded.facts import NodeHasIpAddress
from protocol.noded.membership import NodeVersion
from protocol.noded.statefiles import FileRename, JobqueueRename, JobqueueUpdate
from tests.support.machines.nodedaemons import MadeUpCluster, Seen, close, hang, replying, serve

pytestmark = pytest.mark.trio

VERSION = b"[true, 3000000]\n"
# seconds of rest after which whatever was sent over loopback has arrived
SETTLED_S = 0.05


@pytest.fixture
def cluster(tmp_path: Path) -> MadeUpCluster:
    return MadeUpCluster(tmp_path)


def _named(names: list[str], at: NodeAddress) -> list[NodeAddress]:
    return [NodeAddress(name, at.ip, at.port) for name in names]


async def test_a_connection_is_kept_for_the_next_call(cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)

    async with NodeClient(cluster.files) as client:
        for _ in range(3):
            assert await client.call_nodes([node], NodeVersion()) == {"node1": Replied(3000000)}
        assert (seen.connections, len(seen.requests)) == (1, 3)

    await seen.until(lambda: seen.connected == 0)


async def test_a_node_daemon_that_closes_each_connection_is_called_again(
    cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION, most=1), cluster.server_context(), seen)

    async with NodeClient(cluster.files) as client:
        for _ in range(3):
            assert await client.call_nodes([node], NodeVersion()) == {"node1": Replied(3000000)}

    assert (seen.connections, len(seen.requests)) == (3, 3)


async def test_a_kept_connection_that_was_closed_meanwhile_is_not_used(
    cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen, over = Seen(), trio.Event()
    good = replying(seen, b"[true, []]")

    async def behave(stream: trio.abc.Stream) -> None:
        await good(_Once(stream, over))

    node = await serve(nursery, behave, cluster.server_context(), seen)

    async with NodeClient(cluster.files) as client:
        first = await client.call_nodes([node], JobqueueRename(()))
        over.set()
        await seen.until(lambda: seen.connected == 0)
        # a call that is never sent twice
        assert await client.call_nodes([node], JobqueueRename(())) == first == {"node1": Replied(())}

    assert seen.connections == 2


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_kept_connection_that_ends_under_a_request_costs_a_repeatable_call_nothing(
    repeatable: bool, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    # announces no end, and ends when the second request comes
    good = replying(seen, b"[true, null]" if repeatable else b"[true, [null]]")

    async def behave(stream: trio.abc.Stream) -> None:
        if seen.connections > 1:
            await good(stream)
            return
        await good(_Once(stream))

    node = await serve(nursery, behave, cluster.server_context(), seen)
    update, rename = JobqueueUpdate("/queue/serial", Content(b"1\n")), JobqueueRename((FileRename("/a", "/b"),))
    call: AnyCall = update if repeatable else rename

    async with NodeClient(cluster.files) as client:
        first = await client.call_nodes([node], call)
        second = (await client.call_nodes([node], call))["node1"]

    assert isinstance(first["node1"], Replied)
    if repeatable:
        assert second == Replied(None)
        assert (seen.connections, len(seen.requests)) == (2, 2)
    else:
        assert isinstance(second, Failed)
        assert second.kind is FailureKind.LOST
        assert second.kind.may_have_acted
        assert (seen.connections, len(seen.requests)) == (1, 1)


class _Once(trio.abc.Stream):
    """A stream that breaks when the second request arrives, or before it, when this event is set."""

    def __init__(self, inner: trio.abc.Stream, over: trio.Event | None = None) -> None:
        self._inner = inner
        self._replies = 0
        self._over = over

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._replies and self._over is not None:
            await self._over.wait()
            return b""
        data = await self._inner.receive_some(max_bytes)
        if self._replies:
            raise trio.BrokenResourceError
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._replies += 1
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_a_hundred_nodes_of_which_twenty_hang_cost_the_limit_and_no_more(
    cluster: MadeUpCluster, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    seen, hung = Seen(), Seen()
    good = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    bad = await serve(nursery, hang, cluster.server_context(), hung)
    names = [f"node{number}" for number in range(100)]
    nodes = [NodeAddress(name, *_place(bad if number % 5 == 0 else good)) for number, name in enumerate(names)]
    results = []

    async def call(client: NodeClient) -> None:
        results.append(await client.call_nodes(nodes, NodeVersion(), limit_s=10.0))

    async with NodeClient(cluster.files) as client, trio.open_nursery() as calling:
        calling.start_soon(call, client)
        # hanging ones keep their connections, the others share what is left
        await seen.until(lambda: len(seen.requests) == 80)
        await hung.until(lambda: hung.connections == 20)
        await trio.testing.wait_all_tasks_blocked(SETTLED_S)
        assert results == []
        mock_clock.jump(10.0)

    [outcomes] = results
    assert list(outcomes) == names
    assert sum(outcome == Replied(3000000) for outcome in outcomes.values()) == 80
    late = [outcome for outcome in outcomes.values() if isinstance(outcome, Failed)]
    assert len(late) == 20
    assert all(each.text.endswith("gave no reply to version within 10 s") for each in late)
    assert {each.kind for each in late} == {FailureKind.TIMEOUT}


async def test_nodes_that_do_not_even_shake_hands_give_their_places_up_after_the_limit_for_connecting(
    cluster: MadeUpCluster, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    seen, hung = Seen(), Seen()
    good = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    bad = await serve(nursery, hang, None, hung)
    nodes = [*_named([f"bad{number}" for number in range(MAX_CONNECTIONS)], bad), *_named(["good"], good)]
    results = []

    async def call(client: NodeClient) -> None:
        results.append(await client.call_nodes(nodes, NodeVersion()))

    async with NodeClient(cluster.files) as client, trio.open_nursery() as calling:
        calling.start_soon(call, client)
        await hung.until(lambda: hung.connections >= MAX_CONNECTIONS - 1)
        await trio.testing.wait_all_tasks_blocked(SETTLED_S)
        mock_clock.jump(CONNECT_S)

    [outcomes] = results
    assert outcomes["good"] == Replied(3000000)
    assert all(outcomes[name] != Replied(3000000) for name in outcomes if name != "good")
    failed = outcomes["bad0"]
    assert isinstance(failed, Failed)
    assert failed.text.endswith("is not reached within 5 s")


async def test_a_call_that_never_had_its_turn_was_not_sent(
    cluster: MadeUpCluster, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    hung = Seen()
    bad = await serve(nursery, hang, cluster.server_context(), hung)
    nodes = _named([f"bad{number}" for number in range(MAX_CONNECTIONS + 1)], bad)
    results = []

    async def call(client: NodeClient) -> None:
        results.append(await client.call_nodes(nodes, NodeVersion(), limit_s=9.0))

    async with NodeClient(cluster.files) as client, trio.open_nursery() as calling:
        calling.start_soon(call, client)
        await hung.until(lambda: hung.connections == MAX_CONNECTIONS)
        await trio.testing.wait_all_tasks_blocked(SETTLED_S)
        mock_clock.jump(9.0)

    kinds = [outcome.kind for outcome in results[0].values() if isinstance(outcome, Failed)]
    assert kinds.count(FailureKind.TIMEOUT) == MAX_CONNECTIONS
    assert kinds.count(FailureKind.UNSENT) == 1


class _Counted(NodeConnection):
    """A connection that counts how many are open together."""

    open: ClassVar[set[NodeConnection]] = set()
    most: ClassVar[int] = 0

    def __init__(self, node: NodeAddress, context: ssl.SSLContext) -> None:
        super().__init__(node, context)
        _Counted.open.add(self)
        _Counted.most = max(_Counted.most, len(_Counted.open))

    def close(self) -> None:
        super().close()
        _Counted.open.discard(self)


@pytest.mark.parametrize("form", ["trio", "blocking"])
async def test_at_most_thirty_connections_are_open_at_a_time(
    form: str, cluster: MadeUpCluster, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "client" if form == "trio" else "blocking"
    monkeypatch.setattr(f"protocol.noded.clients.{module}.NodeConnection", _Counted)
    monkeypatch.setattr(_Counted, "most", 0)
    seen = Seen()
    daemons = [await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen) for _ in range(70)]
    nodes = [NodeAddress(f"node{number}", *_place(each)) for number, each in enumerate(daemons)]

    if form == "trio":
        async with NodeClient(cluster.files) as client:
            for _ in range(2):
                outcomes = await client.call_nodes(nodes, NodeVersion())
    else:
        outcomes = await trio.to_thread.run_sync(BlockingNodeClient(cluster.files).call_nodes, nodes, NodeVersion())

    assert set(outcomes.values()) == {Replied(3000000)}
    assert seen.connections >= 70
    assert _Counted.most == MAX_CONNECTIONS
    assert _Counted.open == set()


async def test_a_silent_node_is_left_alone_until_its_pause_is_over(
    cluster: MadeUpCluster, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    seen = Seen()
    node = await serve(nursery, close, cluster.server_context(), seen)

    async with NodeClient(cluster.files) as client:
        await client.call_nodes([node], NodeVersion())
        assert client.silence("node1") is not None
        failed = (await client.call_nodes([node], NodeVersion()))["node1"]
        assert isinstance(failed, Failed)
        assert failed.kind is FailureKind.PAUSED
        assert failed.text.startswith(f"{node} was not asked: it failed once, and is asked again in 1 s; {node} closed")
        assert seen.connections == 1

        await client.call_nodes([node], NodeVersion(), even_paused=True)
        assert seen.connections == 2

        # the second pause is twice as long
        mock_clock.jump(1.5)
        assert client.silence("node1") is not None
        mock_clock.jump(0.6)
        await client.call_nodes([node], NodeVersion())
        assert seen.connections == 3


async def test_a_node_that_refuses_is_asked_again_at_once(cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, b'[false, "no"]'), cluster.server_context(), seen)

    async with NodeClient(cluster.files) as client:
        for _ in range(2):
            await client.call_nodes([node], NodeVersion())

    assert len(seen.requests) == 2


async def test_each_node_may_get_a_call_of_its_own(cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, b"[true, true]"), cluster.server_context(), seen)
    calls = [(one, NodeHasIpAddress(f"192.0.2.{at}")) for at, one in enumerate(_named(["a", "b"], node))]

    async with NodeClient(cluster.files) as client:
        assert await client.call_each(calls) == {"a": Replied(True), "b": Replied(True)}

    assert sorted(seen.bodies) == [ascii_json(["192.0.2.0"]), ascii_json(["192.0.2.1"])]


async def test_much_content_is_packed_and_read_beside_the_event_loop(
    cluster: MadeUpCluster, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed_in, read_in = [], []

    def pack(content: Content) -> object:
        packed_in.append(threading.get_ident())
        return pack_for_real(content)

    def read(call: AnyCall, body: bytes) -> object:
        read_in.append(threading.get_ident())
        return read_for_real(call, body)

    pack_for_real, read_for_real = Content.to_wire, read_reply
    monkeypatch.setattr(Content, "to_wire", pack)
    monkeypatch.setattr("protocol.noded.clients.judging.read_reply", read)
    reply = ascii_json([True, None]) + b" " * HEAVY_BYTES
    node = await serve(nursery, replying(Seen(), reply), cluster.server_context())

    async with NodeClient(cluster.files) as client:
        for size in (10, HEAVY_BYTES + 1):
            call = JobqueueUpdate("/queue/job-1", Content(b"x" * size))
            assert await client.call_nodes([node], call) == {"node1": Replied(None)}

    here = threading.get_ident()
    assert [thread == here for thread in packed_in] == [True, False]
    assert [thread == here for thread in read_in] == [False, False]


async def test_renewed_certificates_are_used_without_a_restart(cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    seen = Seen()
    old = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    renewed = trustme.CA()

    async with NodeClient(cluster.files) as client:
        await client.call_nodes([old], NodeVersion())
        # half written: the old ones stay in use, and so do their connections
        cluster.files.client.write_bytes(b"-----BEGIN")
        assert await client.call_nodes([old], NodeVersion()) == {"node1": Replied(3000000)}
        assert seen.connections == 1

        cluster.write(renewed, renewed)
        cluster.authority = renewed
        new = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
        assert await client.call_nodes([new], NodeVersion()) == {"node1": Replied(3000000)}
        # the kept connection of the old certificate is not used either
        failed = (await client.call_nodes([old], NodeVersion()))["node1"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.UNTRUSTED


async def test_a_call_that_is_given_up_closes_its_connection(cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    hung = Seen()
    node = await serve(nursery, hang, cluster.server_context(), hung)

    async with NodeClient(cluster.files) as client, trio.open_nursery() as calling:
        calling.start_soon(client.call_nodes, [node], NodeVersion())
        await hung.until(lambda: hung.connections == 1)
        await trio.testing.wait_all_tasks_blocked(SETTLED_S)
        calling.cancel_scope.cancel()

    await hung.until(lambda: hung.connected == 0)
    # nothing was learned of the node
    assert client.silence("node1") is None


def _place(node: NodeAddress) -> tuple[str, int]:
    return node.ip, node.port
