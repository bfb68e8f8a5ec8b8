"""Finding the node that an opcode names.

Source: opcodes.md 4.
"""

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from common.opcodes.node import OnNode


def node_of(config: ConfigIndex, op: OnNode) -> Node:
    """The node with the opcode's uuid, or with its name; a unique short form of the name is enough.

    Raises: PrerequisiteError: there is no such node.
    """
    if op.node_uuid is None:
        return find_named(config.nodes, [op.node_name], "node", is_host=True)[0]
    found = config.config.nodes.get(NodeUuid(op.node_uuid))
    if found is None:
        raise PrerequisiteError(f"there is no node with the uuid '{op.node_uuid:.80}'", "unknown_entity")
    return found


def instances_on(config: ConfigIndex, node: Node) -> list[str]:
    """The names of the instances that have the node as primary or secondary one."""
    return [*config.primaries(node.uuid), *config.secondaries(node.uuid)]
