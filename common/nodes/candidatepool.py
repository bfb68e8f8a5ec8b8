"""The pool of master candidates: how many there should be, and who is promoted when some are missing. Pure.

Theory. The cluster wants `candidate_pool_size` candidates, the master among them, or as many as it has nodes that may
be one. Ganeti promotes nodes at random; here they are promoted in the order of their names, so that the same cluster
always makes the same choice.

Source: opcodes.md 4 and 6.2; wconfd.md 7.3.
"""

from collections.abc import Collection, Sequence

from common.objects.naming import natural_key
from common.objects.node import Node


def may_be_candidate(node: Node) -> bool:
    """Whether the node's other flags let it be a master candidate."""
    return node.master_capable and not node.offline and not node.drained


def wanted_candidates(nodes: Collection[Node], pool_size: int) -> int:
    """The number of candidates that these nodes, all of the cluster, should have."""
    return min(pool_size, sum(map(may_be_candidate, nodes)))


def missing_candidates(nodes: Collection[Node], pool_size: int) -> int:
    """The number of candidates that are missing; 0: the pool is full."""
    return max(0, wanted_candidates(nodes, pool_size) - sum(node.master_candidate for node in nodes))


def has_room(others: Collection[Node], pool_size: int) -> bool:
    """Whether the pool has room for one more node.

    Args: others: all nodes but the one that joins or returns.
    """
    wanted = min(pool_size, sum(map(may_be_candidate, others)) + 1)
    return sum(node.master_candidate for node in others) < wanted


def promotable(nodes: Collection[Node]) -> Sequence[Node]:
    """The nodes that can be promoted, in the order of promotion."""
    found = [node for node in nodes if may_be_candidate(node) and not node.master_candidate]
    return sorted(found, key=lambda node: natural_key(node.name))
