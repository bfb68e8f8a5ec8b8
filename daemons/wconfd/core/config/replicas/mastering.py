"""Naming the master in the configuration. Pure.

Theory. Who is the master is decided by the lease; the configuration only says it to all others. The new master must be
a candidate that is not offline. Roles of other nodes stay: whether the old master lives is not known, and an offline
node comes back only by an operator's word.

Source: DESIGN section 14; masterfailover.md 3.
"""

import attrs

from common.errors import Conflict
from common.objects.config import Config
from common.objects.index import ConfigIndex
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import touched


def with_master(config: Config, name: str, now: float) -> tuple[Config, bool]:
    """The configuration with this node as the master, and whether it is a change.

    Args:
        name: of the node.
        now: seconds since the epoch.
    Raises: Conflict: there is no such node.
    """
    node = next((each for each in config.nodes.values() if each.name == name), None)
    if node is None:
        known = ", ".join(each.name for each in ConfigIndex(config).nodes)
        raise Conflict(
            f"this node is called '{name}', and the configuration has only {known}; set 'node_name' in '[cluster]'"
        )
    fit = node if node.master_candidate and not (node.offline or node.drained) else _as_candidate(node, now)
    if fit is node and config.cluster.master_node == node.uuid:
        return config, False
    cluster = touched(attrs.evolve(config.cluster, master_node=NodeUuid(node.uuid)), now)
    nodes = config.nodes if fit is node else {**config.nodes, NodeUuid(node.uuid): fit}
    return advanced(config, attrs.evolve(config, cluster=cluster, nodes=nodes), now), True


def _as_candidate(node: Node, now: float) -> Node:
    """A master is a candidate, whatever it was before."""
    return touched(attrs.evolve(node, master_candidate=True, offline=False, drained=False), now)
