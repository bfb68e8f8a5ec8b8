"""Finding the network that an opcode names, and the names that networks may have.

Source: opcodes.md 4.
"""

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import NetworkUuid
from common.objects.networks.network import Network


def network_called(config: ConfigIndex, name: str) -> Network:
    """The network with this uuid or name. Raises: PrerequisiteError: there is none."""
    by_uuid = config.config.networks.get(NetworkUuid(name))
    return by_uuid or find_named(config.networks, [name], "network", is_host=False)[0]


def network_still(config: ConfigIndex, uuid: NetworkUuid, name: str) -> Network:
    """The network that was found before its lock was held. Raises: PrerequisiteError: it was removed meanwhile."""
    found = config.config.networks.get(uuid)
    if found is None:
        raise PrerequisiteError(f"network '{name}' was removed meanwhile", "unknown_entity")
    return found


def check_name_is_free(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: a network has this name, or this uuid."""
    for other in config.networks:
        if name in (other.name, other.uuid):
            raise PrerequisiteError(f"there is a network '{name}' already; its uuid is {other.uuid}", "already_exists")
