"""Master candidates: their number, and their certificates while they change. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from common.objects.config import Node
from common.objects.kinds import NodeUuid, natural_key

# The pool of master candidates: how many there should be, and who is promoted when some are missing. Pure.
#
# Theory. The cluster wants `candidate_pool_size` candidates, the master among them, or as many as it has nodes that may
# be one. Ganeti promotes nodes at random; here they are promoted in the order of their names, so that the same cluster
# always makes the same choice.
#
# Source: opcodes.md 4 and 6.2; wconfd.md 7.3.


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


# The certificates of candidates while they change: the configuration has the old digest beside the new one. Pure.
#
# Theory. Nodes obey those digests that their ssconf has. A candidate may begin to show a new certificate only when all
# nodes have its digest, and the old digest may go only when nobody shows that certificate any more. So the old one
# stands there meanwhile, under the node's uuid with a suffix, which is Ganeti's.
#
# Source: noded.md 3.


_OLD: Final = "-OLDMASTER"

# uuid, perhaps with the suffix -> digest
Digests = Mapping[NodeUuid, str]


def holder_of(key: NodeUuid) -> NodeUuid:
    """The node of an entry."""
    return NodeUuid(key.removesuffix(_OLD))


def with_both(known: Digests, in_use: Digests, new: Digests) -> Digests:
    """The digests with the new ones, and with those in use beside them; other entries stay.

    Args: in_use: what these nodes show now: what an unfinished renewal has written before may be otherwise.
    """
    old = {NodeUuid(f"{uuid}{_OLD}"): digest for uuid, digest in in_use.items() if digest != new.get(uuid)}
    return {**known, **new, **old}


def without_old(known: Digests) -> Digests:
    return {key: digest for key, digest in known.items() if holder_of(key) == key}
