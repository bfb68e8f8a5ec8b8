"""Real etcd that has filled up is brought back by our verbs, and goes on.

Source: lease.md 5.
"""

import itertools
from pathlib import Path

import pytest
import trio

from common.lease.fullness import Fullness
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdFull
from protocol.etcd.keeping.upkeep import Upkeep
from protocol.etcd.keeping.upkeepplan import StoreLook
from protocol.etcd.keeping.upkeepwords import problems
from protocol.etcd.kv import Delete, Get, Put, Transaction
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd, binaries
from tests.support.etcds.etcdfixtures import NONE

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


def sizes(look: StoreLook) -> list[int]:
    return [each.size for each in look.members.values()]


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


async def test_full_etcd_recovers_when_there_is_something_to_forget(tmp_path: Path) -> None:
    if not binaries():
        pytest.skip(NONE)
    with Etcd(tmp_path, options=(f"--quota-backend-bytes={QUOTA}",)) as etcd:
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
            if not etcd.binary.may_crash:
                assert "upgrade it to 3.5.6" in problems(await upkeep.keep())[-1]
                return
            await kept(upkeep)
            await put(client, "/fill/again")
            await client.grant(60)


async def test_three_members_are_defragmented_the_leader_after_another_one_leads(
    tmp_path: Path, crashable_etcd: EtcdBinary
) -> None:
    with Etcd(tmp_path, 3, options=(f"--quota-backend-bytes={QUOTA}",), binary=crashable_etcd) as etcd:
        async with EtcdClient(etcd.address()) as client:
            await fill(client)
            upkeep = Upkeep(client)
            before = await upkeep.look()
            await remove_all(client)

            after = await kept(upkeep)

            assert all(small < large / 2 for small, large in zip(sizes(after), sizes(before), strict=True))
            assert [each for each, status in after.members.items() if status.is_leader] != [
                each for each, status in before.members.items() if status.is_leader
            ]
            await put(client, "/fill/again")
