"""Commits of a daemon to a real etcd (DESIGN 14)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from common.errors import InvalidRequest
from common.lease.changes import MOST_BYTES, MOST_KEYS, MOST_OPERATIONS, MOST_VALUE, PART_BYTES, KeyChange
from common.lease.deadline import Deadline, boottime
from common.lease.records import EtcdKeys, Fence
from common.replica.replica import NoLongerMaster
from protocol.etcd.client import EtcdClient
from protocol.etcd.commits import PAGE_KEYS, Commits, read_dirty
from protocol.etcd.kv import Get, Put, Transaction
from tests.support.etcds.etcd import TestEtcd
from tests.support.etcds.reigns import LONG_S, deadline_of, reign

pytestmark = pytest.mark.trio


@pytest.fixture
async def client(etcd: TestEtcd) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(etcd.address()) as client:
        yield client


@pytest.fixture
def keys(etcd: TestEtcd) -> EtcdKeys:
    return EtcdKeys(etcd.prefix)


@pytest.fixture
def deadline(tmp_path: Path) -> Iterator[Deadline]:
    with deadline_of(tmp_path) as (deadline, _):
        yield deadline


@pytest.fixture
async def commits(
    client: EtcdClient, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> AsyncIterator[Commits]:
    commits = Commits(client, keys, await reign(client, keys), deadline, writer="luxid")
    await nursery.start(commits.run)
    yield commits
    nursery.cancel_scope.cancel()


async def values(client: EtcdClient, keys: EtcdKeys) -> dict[str, bytes]:
    found = await read_dirty(client, [keys.dirty])
    return {key.removeprefix(keys.dirty): entry.value for key, entry in found.entries.items()}


async def test_a_commit_is_there_at_its_revision(commits: Commits, client: EtcdClient, keys: EtcdKeys) -> None:
    revision = await commits.commit([KeyChange(f"{keys.dirty}a", b"1"), KeyChange(f"{keys.running}1", b"{}")])

    found = await read_dirty(client, [keys.dirty, keys.running])

    assert {key: (entry.value, entry.revision) for key, entry in found.entries.items()} == {
        f"{keys.dirty}a": (b"1", revision),
        f"{keys.running}1": (b"{}", revision),
    }


async def test_all_that_wait_share_a_transaction(commits: Commits, client: EtcdClient, keys: EtcdKeys) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(2 * MOST_OPERATIONS):
            nursery.start_soon(commits.commit, [KeyChange(f"{keys.dirty}{number}", b"x")])

    assert commits.statistics().commits == 2 * MOST_OPERATIONS
    # the first may go alone, before the others have come
    assert commits.statistics().transactions <= 3
    assert len(await values(client, keys)) == 2 * MOST_OPERATIONS


async def test_a_change_with_the_most_keys_is_one_transaction(
    commits: Commits, client: EtcdClient, keys: EtcdKeys
) -> None:
    changes = [KeyChange(f"{keys.dirty}{number}", b"x") for number in range(MOST_KEYS)]

    revision = await commits.commit(changes)

    found = await read_dirty(client, [keys.dirty])
    assert {entry.revision for entry in found.entries.values()} == {revision}
    assert len(found.entries) == MOST_KEYS


async def test_the_largest_value_comes_back_whole_and_its_parts_go_with_it(
    commits: Commits, client: EtcdClient, keys: EtcdKeys
) -> None:
    value = bytes(range(256)) * (MOST_VALUE // 256)

    revision = await commits.commit([KeyChange(f"{keys.dirty}large", value), KeyChange(f"{keys.dirty}small", b"1")])

    assert await values(client, keys) == {"large": value, "small": b"1"}
    parts = await client.get(Get(keys.parts, is_prefix=True, keys_only=True))
    assert len(parts.values) == MOST_VALUE // PART_BYTES + 1
    await commits.forget({f"{keys.dirty}large": revision, f"{keys.dirty}small": revision})
    await trio.testing.wait_all_tasks_blocked()
    await commits.commit([KeyChange(f"{keys.dirty}next", b"")])
    assert (await client.get(Get(keys.parts, is_prefix=True, keys_only=True))).values == []
    assert await values(client, keys) == {"next": b""}


async def test_a_value_beyond_the_bound_is_refused_with_its_number(commits: Commits, keys: EtcdKeys) -> None:
    with pytest.raises(InvalidRequest, match=f"has {MOST_VALUE + 1} bytes; at most {MOST_VALUE}"):
        await commits.commit([KeyChange(f"{keys.dirty}a", bytes(MOST_VALUE + 1))])

    await commits.commit([KeyChange(f"{keys.dirty}b", b"others go on")])


async def test_only_what_is_unchanged_is_forgotten(commits: Commits, client: EtcdClient, keys: EtcdKeys) -> None:
    revisions = {
        f"{keys.dirty}{number:03}": await commits.commit([KeyChange(f"{keys.dirty}{number:03}", b"1")])
        for number in range(MOST_OPERATIONS + 20)
    }
    newer = [f"{keys.dirty}{number:03}" for number in (3, 110)]
    await commits.commit([KeyChange(key, b"2") for key in newer])

    await commits.forget(revisions)

    assert await values(client, keys) == {"003": b"2", "110": b"2"}


async def test_an_old_master_is_refused_and_nothing_of_it_is_there(
    commits: Commits, client: EtcdClient, keys: EtcdKeys
) -> None:
    await commits.commit([KeyChange(f"{keys.dirty}a", b"1")])
    await reign(client, keys, "n2")

    with pytest.raises(NoLongerMaster, match="the epoch in etcd is 2, that of this mastership was 1"):
        await commits.commit([KeyChange(f"{keys.dirty}a", b"late")])
    with pytest.raises(NoLongerMaster):
        await commits.forget({f"{keys.dirty}a": 1})
    with pytest.raises(NoLongerMaster):
        await commits.commit([KeyChange(f"{keys.dirty}b", b"later")])

    assert await values(client, keys) == {"a": b"1"}
    # it is the comparison that keeps it out: the same write without it overwrites what the new master has
    await client.transact(Transaction([], [Put(f"{keys.dirty}a", b"late")]))
    assert await values(client, keys) == {"a": b"late"}


async def test_nothing_is_sent_after_the_own_deadline(client: EtcdClient, keys: EtcdKeys, tmp_path: Path) -> None:
    with deadline_of(tmp_path, LONG_S) as (deadline, writer):
        commits = Commits(client, keys, await reign(client, keys), deadline, writer="luxid")
        async with trio.open_nursery() as nursery:
            await nursery.start(commits.run)
            writer.set(boottime())

            with pytest.raises(NoLongerMaster, match="own deadline has passed"):
                await commits.commit([KeyChange(f"{keys.dirty}a", b"1")])

    assert commits.state.lost.startswith("this node's own deadline")
    assert await values(client, keys) == {}


async def test_a_second_process_of_the_same_daemon_stops_the_first(
    commits: Commits, client: EtcdClient, keys: EtcdKeys, deadline: Deadline, nursery: trio.Nursery
) -> None:
    await commits.commit([KeyChange(f"{keys.dirty}a", b"1")])
    epoch = (await client.get(Get(keys.epoch))).values[0]
    master = (await client.get(Get(keys.master))).values[0]
    second = Commits(client, keys, Fence(1, master.create_revision, epoch.mod_revision), deadline, writer="luxid")
    await nursery.start(second.run)

    with pytest.raises(NoLongerMaster, match="another process writes to etcd as 'luxid'"):
        await commits.commit([KeyChange(f"{keys.dirty}a", b"2")])
    assert await values(client, keys) == {"a": b"1"}


async def test_a_thread_may_commit(commits: Commits, client: EtcdClient, keys: EtcdKeys) -> None:
    await trio.to_thread.run_sync(trio.from_thread.run, commits.commit, [KeyChange(f"{keys.dirty}a", b"1")])

    assert await values(client, keys) == {"a": b"1"}


async def test_what_waits_when_the_writer_is_cancelled_is_committed(
    client: EtcdClient, keys: EtcdKeys, deadline: Deadline
) -> None:
    commits = Commits(client, keys, await reign(client, keys), deadline, writer="luxid")
    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(commits.run)
        for number in range(5):
            callers.start_soon(commits.commit, [KeyChange(f"{keys.dirty}{number}", bytes(MOST_BYTES))])
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert len(await values(client, keys)) == 5


async def test_many_keys_are_read_as_of_one_revision_while_others_write(
    commits: Commits, client: EtcdClient, keys: EtcdKeys
) -> None:
    count = 3 * PAGE_KEYS
    names = [f"{keys.dirty}{number:04}" for number in range(count)]
    await commits.commit([KeyChange(name, b"0") for name in names])
    is_over = trio.Event()

    async def write() -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            # one transaction: a reading that mixes two revisions sees two numbers
            await commits.commit([KeyChange(name, str(turn).encode()) for name in names])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for _ in range(3):
            found = await read_dirty(client, [keys.dirty])
            assert len(found.entries) == count
            assert len({entry.value for entry in found.entries.values()}) == 1
        is_over.set()
