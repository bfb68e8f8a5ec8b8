"""Filling the pool of master candidates, when some leave: other nodes are promoted, those that reply.

Source: opcodes.md 6.2 (`auto_promote`).
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import attrs

from common.nodes.candidatepool import missing_candidates, promotable
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from daemons.jobproc.context import UnitContext

if TYPE_CHECKING:
    from daemons.jobproc.units.nodes.calls import NodeCalls


@attrs.frozen
class Promotions:
    """The nodes that become candidates."""

    nodes: tuple[Node, ...] = ()
    certificates: Mapping[NodeUuid, str] = attrs.field(factory=dict)

    def tell(self, context: UnitContext) -> None:
        """Tell of them in the job's log."""
        for node in self.nodes:
            context.feedback(f"node '{node.name}' becomes a master candidate")


def fill_pool(context: UnitContext, nodes: Collection[Node], pool_size: int) -> Promotions:
    """Choose the nodes to promote; those that do not reply are passed over, with a line in the job's log.

    Args: nodes: all of the cluster, as they will be otherwise.
    """
    missing, waiting = missing_candidates(nodes, pool_size), list(promotable(nodes))
    if not missing or not waiting:
        return Promotions()
    # imported late: see there
    from daemons.jobproc.units.nodes.calls import NodeCalls

    calls = NodeCalls(context.settings)
    promoted: dict[NodeUuid, tuple[Node, str]] = {}
    while len(promoted) < missing and waiting:
        count = missing - len(promoted)
        asked, waiting = waiting[:count], waiting[count:]
        promoted |= _answering(context, calls, asked)
    return Promotions(
        tuple(attrs.evolve(node, master_candidate=True) for node, _ in promoted.values()),
        {uuid: digest for uuid, (_, digest) in promoted.items()},
    )


def _answering(context: UnitContext, calls: "NodeCalls", nodes: list[Node]) -> Mapping[NodeUuid, tuple[Node, str]]:
    """Those of the nodes that tell their certificates."""
    digests = calls.digests_of(nodes)
    found: dict[NodeUuid, tuple[Node, str]] = {}
    for node in nodes:
        digest = digests[node.name]
        if isinstance(digest, str):
            found[NodeUuid(node.uuid)] = (node, digest)
        else:
            context.feedback(f"warning: node '{node.name}' cannot become a master candidate: {digest.text}")
    return found
