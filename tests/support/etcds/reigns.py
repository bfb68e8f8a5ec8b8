"""A mastership in etcd without keeperd, for tests of what is written under one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.lease.deadline import Deadline, DeadlineWriter, boottime
from common.lease.fence import Fence
from common.lease.keys import Keys
from protocol.etcd.fenced.untilknown import Etcd
from protocol.etcd.kv import Delete, Get, Put, Transaction

LONG_S = 3600.0


async def reign(client: Etcd, keys: Keys, node: str = "n1") -> Fence:
    """Make a node the master, whoever was it before."""
    await client.transact(Transaction([], [Delete(keys.master)]))
    before = (await client.get(Get(keys.epoch))).values
    epoch = int(before[0].value) + 1 if before else 1
    outcome = await client.transact(
        Transaction([], [Put(keys.master, node.encode()), Put(keys.epoch, str(epoch).encode())])
    )
    return Fence(epoch, outcome.header.revision, outcome.header.revision)


@contextmanager
def deadline_of(folder: Path, left_s: float = LONG_S) -> Iterator[tuple[Deadline, DeadlineWriter]]:
    """A deadline that lies ahead, and who moves it."""
    path = folder / "deadline"
    writer = DeadlineWriter(path)
    writer.set(boottime() + left_s)
    with Deadline(path) as deadline:
        yield deadline, writer
    writer.close()
