"""Whether etcd is what it was, and what is remembered of it.

Theory. An etcd that is restored from a snapshot, or replaced, takes masterships back: an old fence would hold, an old
queue would be replayed. So each node remembers the highest revision and epoch that it has seen, and of which cluster.
A linear read of some releases may be old by itself; one older read is therefore only a suspicion, and a second one from
another endpoint decides. The doubt lasts until an operator has accepted etcd as it is: its revision would grow past the
remembered one in time. An acceptance says whose files count; all other nodes must be compared with them first.

Source: lease.md 4 and 5.
"""

from typing import Final

import attrs

from common.lease.records import Accepted, Maintenance
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.core.states import Memory, View

# reads in a row that prove that etcd is older than remembered
PROOFS: Final = 2


def is_older(view: View, memory: Memory) -> bool:
    """Whether etcd has less than what this node has seen of it, or is another one."""
    if not memory.cluster_id:
        return False
    return view.cluster_id != memory.cluster_id or view.revision < memory.revision or view.epoch < memory.epoch


def is_accepted(view: View, memory: Memory) -> bool:
    """Whether an operator has taken etcd as it is, since this node knows it."""
    return bool(memory.cluster_id) and view.accepted is not None and view.accepted.epoch > memory.accepted


def after_acceptance(view: View, memory: Memory, node: str) -> Memory:
    """Return what is remembered once etcd was accepted; `is_accepted` holds."""
    accepted = view.accepted
    assert accepted is not None
    is_here = accepted.node == node
    return Memory(
        cluster_id=view.cluster_id,
        revision=view.revision,
        epoch=view.epoch,
        own_epoch=accepted.epoch if is_here else memory.own_epoch,
        maintenance=newer(view.maintenance, memory.maintenance),
        lacking=0 if is_here else accepted.epoch,
        accepted=accepted.epoch,
        format=memory.format,
    )


def after_look(view: View, memory: Memory, node: str) -> Memory:
    """Return what is remembered after a read; `is_older` does not hold."""
    own, lacking = memory.own_epoch, memory.lacking
    last = view.last_master
    if last is not None and last.node == node and last.epoch > own:
        if memory.is_campaigning:
            # keeperd ended between the campaign and its memory
            own = last.epoch
        else:
            # this disk knows nothing of that mastership: it was replaced, or the name is used twice
            lacking = max(lacking, last.epoch)
    if last is None and not memory.cluster_id and view.accepted is not None and view.accepted.node == node:
        # a cluster that an operator let begin here with the files of this node, and nobody was its master yet
        own = view.accepted.epoch
    return attrs.evolve(
        memory,
        cluster_id=view.cluster_id,
        revision=max(memory.revision, view.revision),
        epoch=max(memory.epoch, view.epoch),
        own_epoch=own,
        # no transaction of an earlier campaign can win after another node has
        is_campaigning=memory.is_campaigning and view.epoch <= memory.epoch,
        maintenance=newer(view.maintenance, memory.maintenance),
        lacking=lacking,
        # a node that has just joined knows no time before the acceptance
        accepted=memory.accepted if memory.cluster_id or not view.accepted else view.accepted.epoch,
        format=view.master.format if view.master else memory.format,
    )


def newer(one: Maintenance | None, other: Maintenance | None) -> Maintenance | None:
    """Return the later word on maintenance; a key that has gone from etcd says nothing."""
    if one is None or other is None:
        return one or other
    return one if one.change >= other.change else other


def acceptance(keeper: Keeper) -> Accepted:
    """Return the acceptance by this node: its epoch is higher than all that is known."""
    seen = [view.epoch for view in (keeper.view, keeper.doubted) if view]
    return Accepted(epoch=1 + max(keeper.memory.epoch, keeper.nodes_epoch, *seen, 0), node=keeper.me.node)
