"""The nodes that get copies, as the configuration names them."""

from collections.abc import Mapping

from common.objects.index import ConfigIndex
from protocol.noded.clients.nodes import NodeAddress


def candidates(index: ConfigIndex, port: int, master: str | None = None) -> Mapping[str, NodeAddress]:
    """The master candidates without the master and without those that are marked offline, by name.

    Args: master: name of the master; None: the configuration tells it.
    """
    known = index.master_name if master is None else master
    return {
        node.name: NodeAddress(node.name, node.primary_ip, port)
        for node in index.nodes
        if node.master_candidate and not node.offline and node.name != known
    }
