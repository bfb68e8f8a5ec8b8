"""What makes a configuration inconsistent: references that lead nowhere, and a cluster that can run nothing.

Source: wconfd.md 7.6.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import attrs

from common.locks import BGL, Lock, LockLevel, LockMode, group_lock, member_lock
from common.objects.config import Config, Network

_TABLES = ("nodes", "nodegroups", "instances", "networks", "disks")


def find_problems(config: Config) -> tuple[str, ...]:
    """All that is wrong with the configuration; nothing if it is consistent.

    Cost: O(objects).
    """
    return (*_cluster_problems(config), *_key_problems(config), *_reference_problems(config))


def _cluster_problems(config: Config) -> Iterator[str]:
    cluster = config.cluster
    if not cluster.enabled_hypervisors:
        yield "no hypervisor is enabled"
    for hypervisor in cluster.enabled_hypervisors:
        if hypervisor not in cluster.hvparams:
            yield f"hypervisor '{hypervisor.value}' is enabled, but has no parameters"
    if not cluster.enabled_disk_templates:
        yield "no disk template is enabled"
    if cluster.master_node not in config.nodes:
        yield f"the master node '{cluster.master_node}' is none of the nodes"


def _key_problems(config: Config) -> Iterator[str]:
    for table in _TABLES:
        for key, value in getattr(config, table).items():
            if value.uuid != key:
                yield f"{table}: the object under '{key}' has the uuid '{value.uuid}'"


def _reference_problems(config: Config) -> Iterator[str]:
    for node in config.nodes.values():
        if node.group not in config.nodegroups:
            yield f"node '{node.name}' is in group '{node.group}', which does not exist"
    for uuid, instance in config.instances.items():
        name = instance.name or uuid
        if instance.primary_node is not None and instance.primary_node not in config.nodes:
            yield f"instance '{name}' has the primary node '{instance.primary_node}', which does not exist"
        for disk in instance.disks:
            if disk not in config.disks:
                yield f"instance '{name}' has the disk '{disk}', which does not exist"


# Parts of a change of the configuration that its author has not locked. Pure.
#
# Theory. Whoever changes a node, a node group, an instance or a network holds its lock exclusively, or the lock of all
# its kind, or the BGL. The lock of a disk is that of its instance; one without an instance has none. Nor do the
# cluster's own values, filter rules and ports have locks: wconfd makes each change of them in one step. What instances
# have taken of a network's pool changes with them, and is not looked at.
#
# Source: DESIGN section 8.


K = TypeVar("K")
T = TypeVar("T")

# table of the configuration -> level of its objects' locks, which are named by uuid
_LEVELS: Final = {"nodes": LockLevel.NODE, "nodegroups": LockLevel.NODEGROUP, "networks": LockLevel.NETWORK}
_KINDS: Final = {"nodes": "node", "nodegroups": "node group", "networks": "network"}


@attrs.frozen
class Unlocked:
    """An object that was changed although its lock is not held exclusively."""

    # kind and name
    title: str
    # lock that would protect it
    lock: Lock


def unlocked(before: Config, after: Config, held: Mapping[Lock, LockMode]) -> tuple[Unlocked, ...]:
    """The objects that differ, and are not protected by these locks.

    Cost: of tables that both share nothing, of others a look at each object.
    """
    if before is after or _is_held(held, BGL):
        return ()
    return tuple(each for each in _changed(before, after) if not _protects(held, each.lock))


def _changed(before: Config, after: Config) -> Iterator[Unlocked]:
    for table, level in _LEVELS.items():
        for old, new in _differences(getattr(before, table), getattr(after, table)):
            found = old if new is None else new
            assert found is not None
            yield Unlocked(f"{_KINDS[table]} '{found.name}'", member_lock(level, found.uuid))
    for name in sorted(_changed_instances(before, after)):
        yield Unlocked(f"instance '{name}'", member_lock(LockLevel.INSTANCE, name))


def _changed_instances(before: Config, after: Config) -> set[str]:
    """The names of the instances that differ, or whose disks do; of a renamed one both."""
    pairs = _differences(before.instances, after.instances)
    names = {each.name or each.uuid for pair in pairs for each in pair if each is not None}
    disks = {each.uuid for pair in _differences(before.disks, after.disks) for each in pair if each is not None}
    if disks:
        every = (each for config in (before, after) for each in config.instances.values())
        names.update(each.name or each.uuid for each in every if not disks.isdisjoint(each.disks))
    return names


def _differences(before: Mapping[K, T], after: Mapping[K, T]) -> Iterator[tuple[T | None, T | None]]:
    """Each object that differs, as it was and as it is; None: there is none."""
    if before is after:
        return
    for key, new in after.items():
        old = before.get(key)
        if old is not new and _own(old) != _own(new):
            yield old, new
    for key, old in before.items():
        if key not in after:
            yield old, None


def _own(found: object) -> object:
    """What changes only under the object's own lock."""
    if isinstance(found, Network):
        return attrs.evolve(found, reservations=None, serial_no=0, mtime=0.0)
    return found


def _protects(held: Mapping[Lock, LockMode], lock: Lock) -> bool:
    return _is_held(held, lock) or _is_held(held, group_lock(lock.level))


def _is_held(held: Mapping[Lock, LockMode], lock: Lock) -> bool:
    return held.get(lock) is LockMode.EXCLUSIVE
