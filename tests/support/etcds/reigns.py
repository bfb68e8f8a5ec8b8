"""A mastership in etcd without keeperd, for tests of what is written under one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.lease.deadline import Deadline, DeadlineWriter, boottime
from common.lease.records import EtcdKeys, Fence
from protocol.etcd.fencedsequence import Etcd
from protocol.etcd.kv import ComparedField, Delete, Equals, Get, Put, Transaction

LONG_S = 3600.0


async def reign(client: Etcd, keys: EtcdKeys, node: str = "n1") -> Fence:
    """Make a node the master, whoever was it before.

    A slow member carries a request out that another one has carried out as well: the second time it has no effect.
    """
    old, before = (await client.get(Get(keys.master))).values, (await client.get(Get(keys.epoch))).values
    for master in old:
        is_same = Equals(keys.master, ComparedField.MODIFIED, master.mod_revision)
        await client.transact(Transaction([is_same], [Delete(keys.master)]))
    epoch = int(before[0].value) + 1 if before else 1
    is_free = Equals(keys.master, ComparedField.CREATED, 0)
    is_next = Equals(keys.epoch, ComparedField.MODIFIED, before[0].mod_revision if before else 0)
    puts = [Put(keys.master, node.encode()), Put(keys.epoch, str(epoch).encode())]
    await client.transact(Transaction([is_free, is_next], puts))
    (now,) = (await client.get(Get(keys.epoch))).values
    return Fence(epoch, now.mod_revision, now.mod_revision)


@contextmanager
def deadline_of(folder: Path, left_s: float = LONG_S) -> Iterator[tuple[Deadline, DeadlineWriter]]:
    """A deadline that lies ahead, and who moves it."""
    path = folder / "deadline"
    writer = DeadlineWriter(path)
    writer.set(boottime() + left_s)
    with Deadline(path) as deadline:
        yield deadline, writer
    writer.close()
