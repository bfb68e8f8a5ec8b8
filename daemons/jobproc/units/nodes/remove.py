"""OP_NODE_REMOVE: takes a node out of the cluster, dead or alive.

Theory. The configuration is changed first: from then on nothing is sent to the node, and its certificate is obeyed by
no other. Only then it is told to forget the cluster, which may fail: nothing is needed of it.

Source: opcodes.md 4 and 6.2, NODE_REMOVE; noded.md 6.
"""

from typing import ClassVar

from common.errors import PrerequisiteError
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from common.opcodes.base import OpCode
from common.opcodes.node import OpNodeRemove
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes.filling import fill_pool
from daemons.jobproc.units.nodes.finding import instances_on, node_of


class NodeRemoveUnit(LogicalUnit[OpNodeRemove]):
    """Under the BGL. Other nodes take the node's place among the candidates."""

    OPCODE: ClassVar[type[OpCode]] = OpNodeRemove

    def check_prereq(self, context: UnitContext) -> None:
        config = context.config
        self._node = node_of(config, self.op)
        if self._node.uuid == config.cluster.master_node:
            text = f"node '{self._node.name}' is the master; move the master to another node first"
            raise PrerequisiteError(text, "wrong_input")
        if instances := instances_on(config, self._node):
            raise PrerequisiteError(
                f"node '{self._node.name}' has instances: {', '.join(instances[:5])}; move or remove them first",
                "wrong_input",
            )

    def run(self, context: UnitContext) -> None:
        config = context.config
        others = [node for node in config.nodes if node.uuid != self._node.uuid]
        promoted = fill_pool(context, others, config.cluster.candidate_pool_size)
        config.change_nodes(
            promoted.nodes,
            removed=[NodeUuid(self._node.uuid)],
            certificates=promoted.certificates,
            may_fall_short=True,
        )
        promoted.tell(context)
        if fault := _leave(context, self._node):
            left = f"node '{self._node.name}' has left, but keeps its files of the cluster, keys included"
            context.feedback(f"warning: {left}: {fault}")


def _leave(context: UnitContext, node: Node) -> str | None:
    """Let the node forget the cluster; returns why it did not."""
    if node.offline:
        return "it is marked offline and was not told"
    # imported late: see there
    from daemons.jobproc.units.nodes.calls import NodeCalls

    try:
        return NodeCalls(context.settings).leave(node)
    except PrerequisiteError as error:
        return error.message
