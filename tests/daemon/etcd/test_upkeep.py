"""Real etcd that has filled up is brought back by our verbs, and goes on.

Source: lease.md 5.
"""

import itertools
from pathlib import Path

import pytest
import trio

from common.lease.records import Fullness
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, EtcdFull, Get, Put, Transaction
from protocol.etcd.questions import MemberStatus
from protocol.etcd.upkeep import Upkeep
from protocol.etcd.upkeepplan import StoreLook, problems
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd

pytestmark = pytest.mark.trio
QUOTA = 8 * 2**20
# so small that nothing but the last compaction leaves space free
PIECE = bytes(30_000)
_numbers = itertools.count()
_PATIENCE_S = 60.0


async def put(client: EtcdClient, key: str) -> None:
    assert (await client.transact(Transaction([], [Put(key, PIECE)]))).succeeded


async def fill(client: EtcdClient) -> None:
    async def put_for_ever() -> None:
        for number in _numbers:
            await put(client, f"/fill/{number}")

    with pytest.raises(EtcdFull):
        await put_for_ever()


async def remove_all(client: EtcdClient) -> None:
    assert (await client.transact(Transaction([], [Delete("/fill/", is_prefix=True)]))).succeeded


async def kept(upkeep: Upkeep) -> StoreLook:
    """What is seen when there is room again: what one time leaves, for a member was slow, the next one does."""
    with trio.fail_after(_PATIENCE_S):
        while (look := await upkeep.keep()).fullness is not Fullness.FINE:
            pass
    return look


async def whole_look(upkeep: Upkeep) -> StoreLook:
    """What is seen when no member is too slow to tell."""
    with trio.fail_after(_PATIENCE_S):
        while (look := await upkeep.look()).silent:
            pass
    return look


class Noting(EtcdClient):
    """Notes what members were when they were defragmented."""

    def __init__(self, address: EtcdAddress) -> None:
        super().__init__(address)
        self._leaders: set[Endpoint] = set()
        self._compacted: set[Endpoint] = set()
        self.defragmented: set[Endpoint] = set()
        # what should not have been
        self.faults: list[str] = []

    async def status(self, endpoint: Endpoint, limit_s: float | None = None) -> MemberStatus:
        found = await super().status(endpoint, limit_s)
        self._leaders.discard(endpoint)
        self._leaders |= {endpoint} if found.is_leader else set()
        return found

    async def compact_at(self, endpoint: Endpoint, revision: int, limit_s: float = 30.0) -> None:
        await super().compact_at(endpoint, revision, limit_s)
        self._compacted.add(endpoint)

    async def defragment(self, endpoint: Endpoint, limit_s: float = 60.0) -> None:
        self.faults += [f"{endpoint} led when it was seen last"] * (endpoint in self._leaders)
        self.faults += [f"{endpoint} may still have to compact its file"] * (endpoint not in self._compacted)
        self.defragmented.add(endpoint)
        await super().defragment(endpoint, limit_s)


async def test_what_happened_before_the_last_time_is_compacted(etcd: TestEtcd) -> None:
    async with EtcdClient(etcd.address()) as client:
        upkeep = Upkeep(client)
        await client.transact(Transaction([], [Put(f"{etcd.prefix}k", b"1")]))
        seen = await upkeep.keep()
        last = await client.transact(Transaction([], [Put(f"{etcd.prefix}k", b"2")]))
        await upkeep.keep()

        # what was there at the last time can still be read
        found = await client.get(Get(f"{etcd.prefix}k", revision=last.header.revision - 1))
        await upkeep.keep()

    assert [each.value for each in found.values] == [b"1"]
    assert seen.fullness is Fullness.FINE
    assert list(seen.quotas.values()) == [2**31]


async def test_full_etcd_recovers_when_there_is_something_to_forget(tmp_path: Path, etcd_binary: EtcdBinary) -> None:
    with Etcd(tmp_path, options=(f"--quota-backend-bytes={QUOTA}",), binary=etcd_binary) as etcd:
        async with EtcdClient(etcd.address()) as client:
            await fill(client)
            upkeep = Upkeep(client)

            # space between values may be won back at first; then all of the file is wanted
            stuck = await upkeep.keep()
            while not stuck.is_full:
                await fill(client)
                stuck = await upkeep.keep()

            assert stuck.fullness is Fullness.FULL
            assert "Do not stop the master" in problems(stuck)[0]
            with pytest.raises(EtcdFull, match="gantry cluster"):
                await client.grant(60)
            await remove_all(client)
            await kept(upkeep)
            await put(client, "/fill/again")
            await client.grant(60)


async def test_three_members_are_defragmented_the_leader_after_another_one_leads(
    tmp_path: Path, etcd_binary: EtcdBinary
) -> None:
    with Etcd(tmp_path, 3, options=(f"--quota-backend-bytes={QUOTA}",), binary=etcd_binary) as etcd:
        async with Noting(etcd.address()) as client:
            await fill(client)
            upkeep = Upkeep(client)
            before = await whole_look(upkeep)
            await remove_all(client)

            await kept(upkeep)

            after = await whole_look(upkeep)
            assert all(after.members[each].size < status.size / 2 for each, status in before.members.items())
            assert client.defragmented == set(client.endpoints)
            assert client.faults == []
            await put(client, "/fill/again")
