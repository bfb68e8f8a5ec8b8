"""Finding the object whose tags an opcode tells or changes.

Source: opcodes.md 4 and 6.2, TAGS_GET.
"""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.entity import Entity
from common.objects.index import ConfigIndex, find_named
from common.query.kinds import TagKind
from daemons.jobproc.units.groups.groupnames import group_of

_TITLES: Final[Mapping[TagKind, str]] = {
    TagKind.NODE: "node",
    TagKind.NODEGROUP: "node group",
    TagKind.NETWORK: "network",
    TagKind.INSTANCE: "instance",
}


@attrs.frozen
class Tagged:
    """An object with tags."""

    kind: TagKind
    # kind and name, for errors
    title: str
    # of the object; empty: the cluster
    uuid: str
    tags: frozenset[str]
    # level and name of its lock; None: the cluster's tags have none
    level: LockLevel | None
    lock_name: str

    def requests(self, level: LockLevel, mode: LockMode) -> Sequence[LockRequest]:
        """The request for its lock, on the lock's level."""
        if level is not self.level:
            return ()
        return [LockRequest(member_lock(level, self.lock_name), mode)]


def tagged_object(config: ConfigIndex, kind: TagKind, name: str | None) -> Tagged:
    """The object of this name; of the cluster the name is ignored.

    Raises: PrerequisiteError: there is none, or no name is given.
    """
    if kind is TagKind.CLUSTER:
        return Tagged(kind, "the cluster", "", config.cluster.tags, None, "")
    if not name:
        raise PrerequisiteError(f"name the {_TITLES[kind]} whose tags are meant", "wrong_input")
    match kind:
        case TagKind.NODE:
            return _of(kind, find_named(config.nodes, [name], "node", is_host=True)[0], LockLevel.NODE, name)
        case TagKind.NODEGROUP:
            return _of(kind, group_of(config, name), LockLevel.NODEGROUP, name)
        case TagKind.NETWORK:
            found = find_named(config.networks, [name], "network", is_host=False)[0]
            return _of(kind, found, LockLevel.NETWORK, name)
        case TagKind.INSTANCE:
            instance = find_named(config.instances, [name], "instance", is_host=True)[0]
            title = f"instance '{instance.name}'"
            return Tagged(kind, title, instance.uuid, instance.tags, LockLevel.INSTANCE, instance.name or name)
        case _:
            assert_never(kind)


def _of(kind: TagKind, found: Entity, level: LockLevel, name: str) -> Tagged:
    return Tagged(kind, f"{_TITLES[kind]} '{name}'", found.uuid, found.tags, level, found.uuid)
