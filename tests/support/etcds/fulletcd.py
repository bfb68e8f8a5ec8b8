"""Fill an etcd that has a small quota, and make room in it again."""

from typing import Final

from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, EtcdFull, Put, Transaction
from tests.support.etcds.etcd import TestEtcd

QUOTA: Final = 4 * 2**20
# for `Etcd`
SMALL: Final = f"--quota-backend-bytes={QUOTA}"


async def fill(etcd: TestEtcd) -> None:
    """Until it takes nothing more."""
    async with EtcdClient(etcd.address()) as client:
        for number in range(2 * QUOTA // 2**20):
            try:
                await client.transact(Transaction((), (Put(f"/filler/{number}", b"x" * 2**20),)))
            except EtcdFull:
                return
    raise AssertionError("it takes more than its quota")


async def make_room(etcd: TestEtcd) -> None:
    """As an operator does."""
    async with EtcdClient(etcd.address()) as client:
        outcome = await client.transact(Transaction((), (Delete("/filler/", is_prefix=True),)))
        await client.compact(outcome.header.revision)
        for endpoint in etcd.address().endpoints:
            await client.defragment(endpoint)
        for alarm in await client.alarms():
            await client.disarm(alarm)
