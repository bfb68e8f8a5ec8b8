"""Commits while members of etcd die, stop, and lose replies: each has its effect once, in its place (lease.md 9)."""

import http.client
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio

from common.lease.changes import MOST_BYTES, PART_BYTES, KeyChange
from common.lease.deadline import Deadline
from common.lease.records import EtcdKeys, Fence
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import Commits, read_dirty
from protocol.etcd.fencedsequence import Etcd as EtcdCalls
from protocol.etcd.kv import EtcdFull, Get, GetReply, KeyValue, Transaction, TransactionReply
from tests.support.etcds.etcd import HOST, Etcd, EtcdBinary, EtcdMember
from tests.support.etcds.reigns import deadline_of, reign
from tests.support.machines.proxy import Behaviour, Proxy
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio
# seconds; a member that does not reply is left for the next one
LIMIT_S = 0.7


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), members=3, binary=etcd_binary) as etcd:
        yield etcd


@pytest.fixture
def keys(three: Etcd) -> EtcdKeys:
    return EtcdKeys(three.new_prefix())


@pytest.fixture
def deadline(tmp_path: Path) -> Iterator[Deadline]:
    with deadline_of(tmp_path) as (deadline, _):
        yield deadline


@pytest.fixture
async def client(three: Etcd) -> AsyncIterator[EtcdClient]:
    """That of the commits."""
    async with EtcdClient(three.address(LIMIT_S)) as client:
        yield client


@pytest.fixture
async def reader(three: Etcd) -> AsyncIterator[EtcdClient]:
    """One that waits for slow members."""
    async with EtcdClient(three.address()) as client:
        yield client


async def values(client: EtcdClient, keys: EtcdKeys) -> dict[str, bytes]:
    found = await read_dirty(client, [keys.dirty])
    return {key.removeprefix(keys.dirty): entry.value for key, entry in found.entries.items()}


async def commit_throughout(
    commits: Commits, keys: EtcdKeys, trouble: Callable[[], Awaitable[None]]
) -> dict[str, bytes]:
    """Commit one number after the other until some more were committed after the trouble; return the last ones."""
    has_ended = trio.Event()
    written: dict[str, bytes] = {}

    async def write() -> None:
        number, left = 0, 5
        while left:
            number += 1
            left -= has_ended.is_set()
            await commits.commit([KeyChange(f"{keys.dirty}{number % 3}", str(number).encode())])
            written[str(number % 3)] = str(number).encode()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trouble()
        has_ended.set()
    return written


async def leader(three: Etcd) -> EtcdMember:
    """The member that leads; a member that stands still for a moment is followed by an election."""
    found: list[EtcdMember] = []

    async def is_there() -> bool:
        for member in three.members:
            async with EtcdClient(EtcdAddress((Endpoint(HOST, member.port),), 5)) as client:
                if await _leads(member, (await client.get(Get("x"), PATIENCE_S)).header.member_id):
                    found.append(member)
        return bool(found)

    await wait_until_async(is_there, what="a member to lead")
    return found[0]


async def _leads(member: EtcdMember, member_id: str) -> bool:
    found = await trio.to_thread.run_sync(_post, member, "/v3/maintenance/status", {})
    # one that follows nobody tells none
    return found.get("leader") == member_id


def _post(member: EtcdMember, path: str, body: dict[str, str]) -> dict[str, str]:
    connection = http.client.HTTPConnection(HOST, member.port, timeout=30)
    connection.request("POST", path, json.dumps(body))
    reply: dict[str, str] = json.loads(connection.getresponse().read())
    connection.close()
    return reply


async def test_commits_outlive_the_leader_and_a_stopped_member(
    three: Etcd, client: EtcdClient, reader: EtcdClient, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> None:
    commits = Commits(client, keys, await reign(reader, keys), deadline, writer="luxid")
    await nursery.start(commits.run)

    async def kill_the_leader() -> None:
        victim = await leader(three)
        await trio.to_thread.run_sync(victim.kill)
        await five_more(commits, keys)
        await trio.to_thread.run_sync(victim.restart)

    async def stop_the_leader() -> None:
        victim = await leader(three)
        victim.pause()
        await five_more(commits, keys)
        victim.resume()
        await trio.to_thread.run_sync(victim.wait_until_healthy)

    after_death = await commit_throughout(commits, keys, kill_the_leader)
    assert await values(reader, keys) == after_death
    after_stop = await commit_throughout(commits, keys, stop_the_leader)
    assert await values(reader, keys) == after_stop
    assert commits.statistics().retries + commits.statistics().commits > 20
    nursery.cancel_scope.cancel()


async def five_more(commits: Commits, keys: EtcdKeys) -> None:
    for _ in range(5):
        await commits.commit([KeyChange(f"{keys.running}1", b"{}")])


async def test_what_a_stopped_member_carries_out_late_has_no_effect(
    three: Etcd, client: EtcdClient, reader: EtcdClient, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> None:
    stopped = three.members[0]
    commits = Commits(client, keys, await reign(reader, keys), deadline, writer="luxid")
    await nursery.start(commits.run)
    await commits.commit([KeyChange(f"{keys.dirty}a", b"0")])
    stopped.pause()
    try:
        await commits.commit([KeyChange(f"{keys.dirty}a", b"1")])
        await commits.commit([KeyChange(f"{keys.dirty}a", b"2")])
    finally:
        stopped.resume()
        await trio.to_thread.run_sync(stopped.wait_until_healthy)

    await commits.commit([KeyChange(f"{keys.dirty}b", b"3")])

    assert await values(reader, keys) == {"a": b"2", "b": b"3"}
    nursery.cancel_scope.cancel()


async def test_a_commit_without_a_reply_has_its_effect_once(
    three: Etcd, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> None:
    """Its only way to etcd swallows all replies, and then goes on."""
    with Proxy((HOST, 0), (HOST, three.members[1].port)) as proxy:
        address = EtcdAddress((Endpoint(*proxy.place),), LIMIT_S)
        async with EtcdClient(address) as client, EtcdClient(three.address()) as other:
            commits = Commits(client, keys, await reign(other, keys), deadline, writer="luxid")
            await nursery.start(commits.run)
            proxy.behave(Behaviour.HALF)
            nursery.start_soon(commits.commit, [KeyChange(f"{keys.dirty}a", b"1")])
            await wait_until_async(lambda: commits.state.silent_since_s, what="etcd to be silent")
            there: list[KeyValue] = []

            async def is_there() -> bool:
                there[:] = (await other.get(Get(f"{keys.dirty}a"))).values
                return bool(there)

            await wait_until_async(is_there, what="the change without a reply is carried out")
            proxy.behave(Behaviour.PASS)

            later = await commits.commit([KeyChange(f"{keys.dirty}b", b"2")])

            found = await read_dirty(other, [keys.dirty])
            assert [(key[-1], entry.revision) for key, entry in found.entries.items()] == [
                ("a", there[0].mod_revision),
                ("b", later),
            ]
            assert commits.statistics().failures == 0
            assert commits.state.silent_since_s is None
            nursery.cancel_scope.cancel()


async def test_a_full_etcd_refuses_changes_and_forgets(
    three: Etcd, client: EtcdClient, reader: EtcdClient, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> None:
    fence = await reign(reader, keys)
    commits = Commits(client, keys, fence, deadline, writer="luxid")
    await nursery.start(commits.run)
    revision = await commits.commit([KeyChange(f"{keys.dirty}a", b"1")])
    alarm = {"action": "ACTIVATE", "alarm": "NOSPACE", "memberID": (await reader.get(Get("x"))).header.member_id}
    await trio.to_thread.run_sync(_post, three.members[0], "/v3/maintenance/alarm", alarm)
    try:
        for _ in range(2):
            with pytest.raises(EtcdFull):
                await commits.commit([KeyChange(f"{keys.dirty}b", b"2")])
        assert commits.state.is_full
        await commits.forget({f"{keys.dirty}a": revision})
        assert await values(reader, keys) == {}
        # a daemon that is started meanwhile serves what is there, too
        again = Commits(client, keys, fence, deadline, writer="luxid")
        await nursery.start(again.run)
        assert (await again.read([keys.dirty])).entries == {}
    finally:
        with trio.CancelScope(shield=True):
            disarm = {**alarm, "action": "DEACTIVATE"}
            await trio.to_thread.run_sync(_post, three.members[0], "/v3/maintenance/alarm", disarm)

    await again.commit([KeyChange(f"{keys.dirty}c", b"3")])

    assert await values(reader, keys) == {"c": b"3"}
    nursery.cancel_scope.cancel()


class Crash(Exception):
    pass


class Crashing:
    """Passes so many transactions on; the next one ends the daemon, before or after it is sent."""

    def __init__(self, client: EtcdCalls, left: int, *, is_sent: bool) -> None:
        self._client = client
        self._left = left
        self._is_sent = is_sent

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        return await self._client.get(asked, limit_s)

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        if self._left > 0:
            outcome = await self._client.transact(transaction, limit_s)
            # one without a reply comes again
            self._left -= 1
            return outcome
        if self._is_sent:
            await self._client.transact(transaction, limit_s)
        raise Crash


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_large_change_that_is_interrupted_is_there_whole_or_not_at_all(
    reader: EtcdClient, keys: EtcdKeys, deadline: Deadline, is_sent: bool
) -> None:
    fence = await reign(reader, keys)
    before = {"a": b"old", "b": b"old"}
    value = bytes(MOST_BYTES + 1)
    # the list of keys, the parts, the last transaction
    steps = 1 + -(-2 * len(value) // PART_BYTES) + 1
    for step in range(steps):
        await carry_out(reader, keys, fence, deadline, before)
        claim = 1
        crashing = Crashing(reader, claim + step, is_sent=is_sent)
        with pytest.RaisesGroup(Crash, flatten_subgroups=True, allow_unwrapped=True):
            await carry_out(crashing, keys, fence, deadline, {"a": value, "b": value})

        is_committed = is_sent and step == steps - 1
        assert await values(reader, keys) == ({"a": value, "b": value} if is_committed else before)
    # each start clears what was left
    await carry_out(reader, keys, fence, deadline, before)
    assert (await reader.get(Get(keys.parts, is_prefix=True, keys_only=True))).values == []


async def carry_out(
    client: EtcdCalls, keys: EtcdKeys, fence: Fence, deadline: Deadline, contents: dict[str, bytes]
) -> None:
    """A daemon that starts, commits this, and ends."""
    commits = Commits(client, keys, fence, deadline, writer="luxid")
    async with trio.open_nursery() as nursery:
        await nursery.start(commits.run)
        await commits.commit([KeyChange(f"{keys.dirty}{name}", content) for name, content in contents.items()])
        # garbage is cleared before the next group is committed
        await commits.commit([KeyChange(f"{keys.running}1", None)])
        nursery.cancel_scope.cancel()
