"""keeperd of the master tells its daemons how full etcd is (lease.md 5)."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing

from common.lease.deadline import FullnessReader, FullnessWriter
from common.lease.records import EtcdKeys, Fullness
from daemons.keeperd import storekeeping
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import State
from daemons.keeperd.storekeeping import StoreKeeping
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, Put, Transaction
from protocol.etcd.upkeep import Upkeep
from tests.support.etcds.etcd import Etcd, EtcdBinary
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
QUOTA = 32 * 2**20


def keeper(state: State) -> Keeper:
    return cast(Keeper, SimpleNamespace(state=state, view=None))


async def fill_nearly(client: EtcdClient) -> None:
    upkeep = Upkeep(client)
    for number in range(QUOTA // 2**18):
        await client.transact(Transaction([], [Put(f"/fill/{number}", bytes(2**18))]))
        if (await upkeep.look()).fullness is Fullness.RESERVED:
            return
    raise AssertionError("it holds more than its quota")


async def test_its_level_follows_etcd_while_this_node_is_the_master(
    tmp_path: Path, etcd_binary: EtcdBinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storekeeping, "_FILLING_S", 0.5)
    writer = FullnessWriter(tmp_path / "fullness")
    reader = FullnessReader(tmp_path / "fullness")
    now = [keeper(State.FOLLOW)]
    (tmp_path / "etcd").mkdir()
    with Etcd(tmp_path / "etcd", options=(f"--quota-backend-bytes={QUOTA}",), binary=etcd_binary) as etcd:
        async with EtcdClient(etcd.address()) as client, trio.open_nursery() as nursery:
            await fill_nearly(client)
            store = StoreKeeping(client, EtcdKeys("/k/"), writer)
            nursery.start_soon(store.run, lambda: now[0])
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert reader.level.name == "FINE"

            # a new master looks at once
            now[0] = keeper(State.MASTER)
            store.hear(now[0])
            await wait_until_async(lambda: reader.level is Fullness.RESERVED, what="the reserve is told")
            assert "etcd fills up" in store.problems[0]

            await client.transact(Transaction([], [Delete("/fill/", is_prefix=True)]))
            # nobody else changes anything; etcd may free the space in two parts, and after the first it only warns
            monkeypatch.setattr(storekeeping, "_INTERVAL_S", 0.5)
            await wait_until_async(lambda: reader.level is Fullness.FINE, what="that there is room is told")
            nursery.cancel_scope.cancel()
