"""The nodes that commands name, checked when a job is submitted: whoever mistypes a name hears of it at once.

A job may wait for hours before its turn. So a name that the configuration does not know refuses the job. Whether the
node can run a command, e.g. is not offline, is found out when the job runs.

Source: DESIGN section 13.
"""

from collections.abc import Iterable, Sequence

from common.errors import InvalidRequest, PrerequisiteError
from common.objects.index import find_named
from common.objects.node import Node
from common.opcodes.base import OpCode
from common.opcodes.command import OpRunCommand


def names_nodes(ops: Iterable[OpCode]) -> bool:
    """Whether one of these opcodes runs a command on a node."""
    return any(isinstance(op, OpRunCommand) and op.node is not None for op in ops)


def unknown_node(ops: Iterable[OpCode], nodes: Sequence[Node]) -> InvalidRequest | None:
    """Why these opcodes are refused: one names no node, or a short form of several; None: all are known.

    Names are found as job processes find them.
    """
    for number, op in enumerate(ops, 1):
        name = op.node if isinstance(op, OpRunCommand) else None
        if name is None or any(name in (node.name, node.uuid) for node in nodes):
            continue
        try:
            find_named(nodes, [name], "node", is_host=True)
        except PrerequisiteError as error:
            return InvalidRequest(f"opcode {number}: {error.message}{_similar(name, nodes)}")
    return None


def _similar(name: str, nodes: Sequence[Node]) -> str:
    # imported late: only a wrong name needs it
    from difflib import get_close_matches

    full = {short: node.name for node in nodes if node.name for short in (node.name.partition(".")[0], node.name)}
    found = dict.fromkeys(full[each] for each in get_close_matches(name, full))
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else "; 'gnt-node list' shows all"
