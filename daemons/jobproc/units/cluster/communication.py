"""The network by which instances talk to their node: what must be made of it when the cluster gets one.

Source: opcodes.md 4, CLUSTER_SET_PARAMS; Ganeti's `gnt-cluster modify --instance-communication-network` (known).
"""

from typing import Final

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex
from common.objects.kinds import NetworkUuid, NicMode
from common.objects.networks.network import Network
from protocol.luxi.submission import JobInput

_SUBNET: Final = "169.254.0.0/16"
_SUBNET6: Final = "fe80::/10"
_MAC_PREFIX: Final = "52:54:00"
_LINK: Final = "communication_rt"


def check_network(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: there is such a network, with other values than it needs."""
    found = _network(config, name)
    if found is not None and (found.network, found.mac_prefix) != (_SUBNET, _MAC_PREFIX):
        raise PrerequisiteError(
            f"network '{name}' cannot be the instances' way to their node: that needs the range {_SUBNET} and the "
            f"MAC prefix {_MAC_PREFIX}",
            "wrong_input",
        )


def jobs_for(config: ConfigIndex, name: str) -> list[JobInput]:
    """The jobs that make the network, if there is none, and connect it to the groups that lack it."""
    found = _network(config, name)
    jobs: list[JobInput] = []
    if found is None:
        jobs.append((_addition(name),))
    uuid = NetworkUuid(found.uuid) if found is not None else None
    for group in config.groups:
        if uuid is None or uuid not in group.networks:
            jobs.append((_connection(name, group.name, depends_on=-len(jobs) if found is None else None),))
    return jobs


def _network(config: ConfigIndex, name: str) -> Network | None:
    return next((each for each in config.networks if each.name == name), None)


def _addition(name: str) -> dict[str, object]:
    return {
        "OP_ID": "OP_NETWORK_ADD",
        "network_name": name,
        "network": _SUBNET,
        "network6": _SUBNET6,
        "mac_prefix": _MAC_PREFIX,
        "conflicts_check": False,
    }


def _connection(name: str, group: str, depends_on: int | None) -> dict[str, object]:
    op = {
        "OP_ID": "OP_NETWORK_CONNECT",
        "group_name": group,
        "network_name": name,
        "network_mode": NicMode.ROUTED.value,
        "network_link": _LINK,
        "conflicts_check": True,
    }
    return op if depends_on is None else {**op, "depends": [[depends_on, ["success"]]]}
