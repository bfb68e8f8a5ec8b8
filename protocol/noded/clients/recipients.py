"""Which nodes of a configuration get which calls.

Source: noded.md section 8.
"""

from collections.abc import Callable, Iterable, Sequence

from common.objects.config import Config, Node
from common.objects.kinds import natural_key
from protocol.noded.call import PORT, NodeAddress


def candidates(config: Config, port: int = PORT, master: str | None = None) -> Sequence[NodeAddress]:
    """The master candidates but the master: they get the queue and the configuration.

    Args: master: name of the master; None: the configuration tells it.
    """
    if master is None:
        known = config.nodes.get(config.cluster.master_node)
        master = known.name if known is not None else ""
    return _addresses((node for node in config.nodes.values() if node.name != master and node.master_candidate), port)


def online_nodes(config: Config, port: int = PORT) -> Sequence[NodeAddress]:
    """All nodes that are not offline, the master included: they get ssconf."""
    return _addresses((node for node in config.nodes.values() if not node.offline), port)


def all_nodes(
    config: Config, port: int = PORT, wanted: Callable[[Node], bool] = lambda _: True
) -> Sequence[NodeAddress]:
    """All nodes that are wanted, offline ones too: they vote, and their live data are asked."""
    return _addresses(filter(wanted, config.nodes.values()), port)


def _addresses(nodes: Iterable[Node], port: int) -> Sequence[NodeAddress]:
    by_name = sorted(nodes, key=lambda node: natural_key(node.name))
    return [NodeAddress(node.name, node.primary_ip, port, offline=node.offline) for node in by_name]
