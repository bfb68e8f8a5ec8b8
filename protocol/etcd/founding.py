"""What a cluster has in etcd, as one who begins or ends its use of etcd must know it; no node is the master meanwhile.

Theory. A cluster that comes to an etcd without anything of it brings its files: those of one node count, and the other
candidates may be behind. So their names are put as stale, and the serial number of the configuration as the least that
any of them must have: none of them becomes the master before a master has compared it with itself. The acceptance
(`AcceptedRestore`) ends the doubt of a keeperd that remembers another etcd. All of it is one transaction,
with an epoch above all that are known, if nobody has come before.

Source: DESIGN section 14; lease.md 4.
"""

from collections.abc import Collection
from typing import Final

import attrs

from common.errors import Conflict, DamagedFile
from common.lease.changes import Dirty
from common.lease.records import AcceptedRestore, EtcdKeys, LastMaster, MasterRecord, decode, encode
from protocol.etcd.commits import read_dirty
from protocol.etcd.fencedsequence import Etcd
from protocol.etcd.kv import ComparedField, Delete, Equals, Operation, Put, Transaction

_TRIES: Final = 2


@attrs.frozen
class EtcdCluster:
    """What etcd holds of a cluster, of one revision."""

    # all but what keeperds say of themselves
    content: Dirty
    # names of the nodes whose keeperd runs
    alive: frozenset[str]
    # 0: there is none
    epoch: int
    epoch_revision: int
    master: MasterRecord | None
    last_master: LastMaster | None
    # names of the nodes that lack changes which are forgotten
    stale: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not self.content.entries


async def look(client: Etcd, keys: EtcdKeys) -> EtcdCluster:
    """Raises: DamagedFile: a value is not ours. EtcdError."""
    dirty = await read_dirty(client, [keys.prefix])
    entries = dirty.entries
    content = {key: entry for key, entry in entries.items() if not key.startswith(keys.members)}
    epoch = entries.get(keys.epoch)
    master, last = entries.get(keys.master), entries.get(keys.last_master)
    return EtcdCluster(
        Dirty(dirty.revision, content),
        frozenset(key.removeprefix(keys.members) for key in entries if key.startswith(keys.members)),
        _epoch_in(keys, epoch.value) if epoch is not None else 0,
        epoch.revision if epoch is not None else 0,
        decode(master.value, MasterRecord, keys.master) if master is not None else None,
        decode(last.value, LastMaster, keys.last_master) if last is not None else None,
        frozenset(key.removeprefix(keys.stales) for key in entries if key.startswith(keys.stales)),
    )


def _epoch_in(keys: EtcdKeys, value: bytes) -> int:
    """Raises: DamagedFile."""
    if not value.isdigit():
        raise DamagedFile(
            f"the key '{keys.epoch}' of etcd has a value that is not ours: {value[:20]!r}", key=keys.epoch
        )
    return int(value)


async def found_cluster(
    client: Etcd, keys: EtcdKeys, *, epoch: int, node: str, others: Collection[str], config_serial: int, by: str
) -> None:
    """Let a cluster that has nothing in etcd begin with the files of one node.

    Args:
        epoch: above all that any node has seen.
        others: names of the other candidates.
        config_serial: of the configuration of `node`.
        by: who asked, for the log.
    Raises: Conflict: somebody has begun there meanwhile. EtcdError.
    """
    puts: list[Operation] = [
        Put(keys.epoch, str(epoch).encode()),
        Put(keys.accepted, encode(AcceptedRestore(epoch=epoch, node=node, by=by))),
        Put(keys.config_base, str(config_serial).encode()),
        *(Put(keys.stale(name), str(epoch).encode()) for name in sorted(others)),
    ]
    when = [Equals(key, ComparedField.CREATED, 0) for key in (keys.epoch, keys.master)]
    for _ in range(_TRIES):
        if (await client.transact(Transaction(when, puts))).succeeded:
            return
        # the first try may have been carried out without a reply
        now = (await look(client, keys)).content.entries.get(keys.accepted)
        if now is not None and decode(now.value, AcceptedRestore, keys.accepted) == AcceptedRestore(
            epoch=epoch, node=node, by=by
        ):
            return
    raise Conflict(f"another node has begun to use etcd under '{keys.prefix}' meanwhile; see: gantry cluster")


async def remove_cluster(client: Etcd, keys: EtcdKeys, held: EtcdCluster) -> None:
    """Remove all that a cluster has in etcd, if nobody became the master since.

    Raises: Conflict: somebody did. EtcdError.
    """
    when = [
        Equals(keys.epoch, ComparedField.MODIFIED, held.epoch_revision),
        Equals(keys.master, ComparedField.CREATED, 0),
    ]
    outcome = await client.transact(Transaction(when, [Delete(keys.prefix, is_prefix=True)]))
    if not outcome.succeeded and not (await look(client, keys)).is_empty:
        raise Conflict("a node has become the master meanwhile; stop all nodes first: gantry down")
