"""Finding the network and the node group that an opcode names.

Source: opcodes.md 4.
"""

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import GroupUuid, NetworkUuid
from common.objects.network import Network
from common.objects.nodegroup import NodeGroup


def network_called(config: ConfigIndex, name: str) -> Network:
    """The network with this uuid or name. Raises: PrerequisiteError: there is none."""
    by_uuid = config.config.networks.get(NetworkUuid(name))
    return by_uuid or find_named(config.networks, [name], "network", is_host=False)[0]


def group_called(config: ConfigIndex, name: str) -> NodeGroup:
    """The node group with this uuid or name. Raises: PrerequisiteError: there is none."""
    by_uuid = config.config.nodegroups.get(GroupUuid(name))
    return by_uuid or find_named(config.groups, [name], "node group", is_host=False)[0]


def network_still(config: ConfigIndex, uuid: NetworkUuid, name: str) -> Network:
    """The network that was found before its lock was held. Raises: PrerequisiteError: it was removed meanwhile."""
    found = config.config.networks.get(uuid)
    if found is None:
        raise PrerequisiteError(f"network '{name}' was removed meanwhile", "unknown_entity")
    return found


def group_still(config: ConfigIndex, uuid: GroupUuid, name: str) -> NodeGroup:
    """The node group that was found before its lock was held. Raises: PrerequisiteError: it was removed meanwhile."""
    found = config.config.nodegroups.get(uuid)
    if found is None:
        raise PrerequisiteError(f"node group '{name}' was removed meanwhile", "unknown_entity")
    return found


def check_name_is_free(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: a network has this name, or this uuid."""
    for other in config.networks:
        if name in (other.name, other.uuid):
            raise PrerequisiteError(f"there is a network '{name}' already; its uuid is {other.uuid}", "already_exists")
