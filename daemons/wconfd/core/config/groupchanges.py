"""Adding, replacing and removing node groups. Pure.

Every node is in a group, so there is always one, and a group with nodes stays. Users name groups, so a name belongs to
one group, and is no other's uuid. What the asking job has checked may have changed since: all is checked here.

Source: opcodes.md 4; wconfd.md 2.3.
"""

from collections.abc import Mapping

import attrs

from common.errors import ConfigurationError, Conflict
from common.objects.config import Config
from common.objects.kinds import GroupUuid
from common.objects.nodegroup import NodeGroup
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.objects import check_presence, touched, with_cluster_touched


@attrs.frozen(kw_only=True)
class GroupChange:
    """What is asked; the fields are those of `protocol.wconfd.groups.ChangeGroups`."""

    groups: tuple[NodeGroup, ...] = ()
    removed: tuple[GroupUuid, ...] = ()


def change_groups(config: Config, change: GroupChange, now: float, told: Stamp | None = None) -> tuple[Config, Stamp]:
    """Make the change; return the configuration, with its serial number and time.

    Args:
        now: seconds since the epoch.
        told: result of the first delivery of this very call, if there was one.
    Raises:
        ConfigurationError: a group was changed since it was read, or is not there; a uuid is taken; no such network.
        Conflict: a name is taken; a removed group has nodes; no group would be left.
    """
    if told:
        return config, told
    for uuid in change.removed:
        _check_removal(config, uuid)
    groups = {uuid: group for uuid, group in config.nodegroups.items() if uuid not in change.removed}
    for given in change.groups:
        groups[GroupUuid(given.uuid)] = _replacing(config, given, now)
    for given in change.groups:
        _check_name(groups, given)
    if not groups:
        raise Conflict("the last node group cannot be removed")
    after = advanced(config, with_cluster_touched(attrs.evolve(config, nodegroups=groups), now), now)
    return after, (after.serial_no, after.mtime)


def _check_removal(config: Config, uuid: GroupUuid) -> None:
    group = config.nodegroups.get(uuid)
    if group is None:
        raise ConfigurationError(f"there is no node group with the uuid '{uuid[:80]}'", uuid=uuid[:80])
    if nodes := sorted(node.name for node in config.nodes.values() if node.group == uuid):
        raise Conflict(f"node group '{group.name}' has nodes, as '{nodes[0]}'; put them into another group first")


def _replacing(config: Config, given: NodeGroup, now: float) -> NodeGroup:
    """The group as it is stored."""
    for network in given.networks:
        if network not in config.networks:
            raise ConfigurationError(
                f"node group '{given.name}' cannot have network '{network}', which does not exist", uuid=given.uuid
            )
    stored = config.nodegroups.get(GroupUuid(given.uuid))
    if stored is None:
        check_presence(config, given.uuid, is_wanted=False)
        return attrs.evolve(given, ctime=now, mtime=now, serial_no=1)
    if stored.serial_no != given.serial_no:
        raise ConfigurationError(
            f"node group '{stored.name}' was changed since it was read: its serial number is {stored.serial_no}, "
            f"not {given.serial_no}; read it again",
            uuid=given.uuid,
        )
    return touched(given, now)


def _check_name(groups: Mapping[GroupUuid, NodeGroup], given: NodeGroup) -> None:
    for other in groups.values():
        if other.uuid != given.uuid and given.name in (other.name, other.uuid):
            raise Conflict(f"there is a node group '{given.name}' already")
