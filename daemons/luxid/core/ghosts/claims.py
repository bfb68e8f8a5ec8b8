"""What jobs held under an earlier master, by their files: claimed from the locks of this one before others get it.

The locks of a master do not move with it. A job's file tells what is under way, and the opcode which locks it declares.

Source: DESIGN section 14, "New master".
"""

import contextlib
from typing import Final

from common.errors import PrerequisiteError
from common.lockdecl import LockDeclaration, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, Owner
from common.objects.index import ConfigIndex, find_named
from common.objects.node import Node
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job
from daemons.luxid.core.queue.nodework import NodeWork
from protocol.noded.commands import command_key
from protocol.wconfd.ghosts import Claim, Guard

# never a lock of its own file: the process that had it is another machine's
_NO_LIVELOCK: Final = "unknown"


def claim_of(job: Job, work: NodeWork, index: ConfigIndex) -> Claim:
    """The claim of a job whose command may run on a node.

    Args: index: the configuration, by which names become locks.
    Raises: GantryError: the opcode cannot be read.
    """
    op = parse_opcode(dict(job.ops[work.op_index].input))

    node = _node(index, work.node)

    def resolve(level: LockLevel, name: str) -> str | None:
        return node.uuid if node is not None and level is LockLevel.NODE and name == work.node else None

    guard = Guard(node.name if node is not None else work.node, command_key(job.job_id, work.op_index))
    owner = Owner(job.job_id, job.livelock or _NO_LIVELOCK)
    return Claim(owner, _locks(op.lock_declaration(resolve)), (guard,))


def _node(index: ConfigIndex, name: str) -> Node | None:
    """The node with this name or UUID, or with a unique short form of its name, as job processes find it."""
    found = next((node for node in index.nodes if name in (node.name, node.uuid)), None)
    with contextlib.suppress(PrerequisiteError):
        return found or find_named(index.nodes, [name], "node", is_host=True)[0]
    return None


def _locks(declaration: LockDeclaration) -> tuple[tuple[Lock, LockMode], ...]:
    locks = [(BGL, declaration.bgl)] if declaration.bgl is not None else []
    for level, entries in declaration.levels.items():
        locks += [(each.lock, each.mode) for each in requests_for(level, entries) if each.mode is not None]
    return tuple(locks)
