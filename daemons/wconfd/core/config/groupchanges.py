"""Adding, replacing and removing node groups. Pure.

Every node is in a group, so there is always one, and a group with nodes stays. Users name groups, so a name belongs to
one group, and is no other's uuid. What the asking job has checked may have changed since: all is checked here.

Source: opcodes.md 4; wconfd.md 2.3.
"""

from collections.abc import Iterator, Mapping

import attrs

from common.errors import ConfigurationError, Conflict
from common.objects.addresspool import AddressPool
from common.objects.config import Config, Network, NodeGroup
from common.objects.kinds import GroupUuid, NetworkUuid
from daemons.wconfd.core.config.configstate import Stamp, advanced, object_of, stored_anew, with_cluster_touched


@attrs.frozen(kw_only=True)
class GroupChange:
    """What is asked; the fields are those of `protocol.wconfd.changes.ChangeGroups`."""

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
        _check_group_removal(config, uuid)
    groups = {uuid: group for uuid, group in config.nodegroups.items() if uuid not in change.removed}
    for given in change.groups:
        groups[GroupUuid(given.uuid)] = _replacing_group(config, given, now)
    for given in change.groups:
        _check_name(groups, given)
    if not groups:
        raise Conflict("the last node group cannot be removed")
    after = advanced(config, with_cluster_touched(attrs.evolve(config, nodegroups=groups), now), now)
    return after, (after.serial_no, after.mtime)


def _check_group_removal(config: Config, uuid: GroupUuid) -> None:
    group = object_of(config.nodegroups, uuid, "node group")
    if nodes := sorted(node.name for node in config.nodes.values() if node.group == uuid):
        raise Conflict(f"node group '{group.name}' has nodes, as '{nodes[0]}'; put them into another group first")


def _replacing_group(config: Config, given: NodeGroup, now: float) -> NodeGroup:
    """The group as it is stored."""
    for network in given.networks:
        if network not in config.networks:
            raise ConfigurationError(
                f"node group '{given.name}' cannot have network '{network}', which does not exist", uuid=given.uuid
            )
    return stored_anew(config, config.nodegroups.get(GroupUuid(given.uuid)), given, "node group", now)


def _check_name(groups: Mapping[GroupUuid, NodeGroup], given: NodeGroup) -> None:
    for other in groups.values():
        if other.uuid != given.uuid and given.name in (other.name, other.uuid):
            raise Conflict(f"there is a node group '{given.name}' already")


# Adding, replacing and removing networks. Pure.
#
# Theory. Jobs of instances take and free addresses of a network without its lock, and without raising its serial
# number. So a job that has read a network must not write back what instances have taken of it: the stored value stays.
# The job that asks for a change has decided by what it had read, which may have changed since; so names and references
# are checked here.
#
# Source: wconfd.md 2.3 and 2.4; opcodes.md 4.


@attrs.frozen(kw_only=True)
class NetworkChange:
    """What is asked; the fields are those of `protocol.wconfd.changes.ChangeNetworks`."""

    networks: tuple[Network, ...] = ()
    removed: tuple[NetworkUuid, ...] = ()


def change_networks(
    config: Config, change: NetworkChange, now: float, told: Stamp | None = None
) -> tuple[Config, Stamp]:
    """Make the change; return the configuration, with its serial number and time.

    Args:
        now: seconds since the epoch.
        told: result of the first delivery of this very call, if there was one.
    Raises:
        ConfigurationError: a network was changed since it was read, or is not there; a uuid is taken.
        ReservationError: a pool has not its network's size.
        Conflict: the configuration would be unsound; the message says why.
    """
    if told:
        return config, told
    networks = dict(config.networks)
    for uuid in change.removed:
        _check_network_removal(config, uuid)
        networks.pop(uuid, None)
    for given in change.networks:
        networks[NetworkUuid(given.uuid)] = _replacing_network(config, given, now)
        _check_alone(networks, given)
    after = attrs.evolve(config, networks=networks)
    if networks.keys() != config.networks.keys():
        after = with_cluster_touched(after, now)
    after = advanced(config, after, now)
    return after, (after.serial_no, after.mtime)


def _check_network_removal(config: Config, uuid: NetworkUuid) -> None:
    network = object_of(config.networks, uuid, "network")
    for group in config.nodegroups.values():
        if uuid in group.networks:
            raise Conflict(f"network '{network.name}' is connected to group '{group.name}'; disconnect it first")
    if user := next(_users(config, uuid), None):
        raise Conflict(f"instance '{user}' has an interface in network '{network.name}'; change that first")


def _users(config: Config, uuid: NetworkUuid) -> Iterator[str]:
    for key, instance in config.instances.items():
        if any(nic.network == uuid for nic in instance.nics):
            yield instance.name or key


def _replacing_network(config: Config, given: Network, now: float) -> Network:
    """The network as it is stored."""
    # refuses strings of another size
    AddressPool.of(given)
    stored = config.networks.get(NetworkUuid(given.uuid))
    after = stored_anew(config, stored, given, "network", now)
    if stored is None:
        return after
    if stored.network != given.network:
        raise Conflict(f"the range of network '{stored.name}' cannot be changed; make another network")
    return attrs.evolve(after, reservations=stored.reservations)


def _check_alone(networks: Mapping[NetworkUuid, Network], given: Network) -> None:
    if any(other.name == given.name and other.uuid != given.uuid for other in networks.values()):
        raise Conflict(f"there is a network '{given.name}' already")
