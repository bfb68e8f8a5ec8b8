"""What jobs held under an earlier master, by their files: claimed from the locks of this one before others get it.

The locks of a master do not move with it. A job's file tells what is under way, and the opcode which locks it declares.

Source: DESIGN section 14, "New master".
"""

from typing import Final

from common.lockdecl import LockDeclaration, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, Owner
from common.objects.index import ConfigIndex
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job
from daemons.luxid.core.queue.nodework import NodeWork
from protocol.noded.names import command_key
from protocol.wconfd.ghosts import Claim, Guard

# never a lock of its own file: the process that had it is another machine's
_NO_LIVELOCK: Final = "unknown"


def claim_of(job: Job, work: NodeWork, index: ConfigIndex) -> Claim:
    """The claim of a job whose command may run on a node.

    Args: index: the configuration, by which names become locks.
    Raises: GantryError: the opcode cannot be read.
    """
    op = parse_opcode(dict(job.ops[work.op_index].input))

    node = index.node_named(work.node)

    def resolve(_: LockLevel, name: str) -> str | None:
        found = index.node_named(name)
        return None if found is None else found.uuid

    key = command_key(job.job_id, work.op_index, work.attempt)
    guard = Guard(node.name if node is not None else work.node, key)
    owner = Owner(job.job_id, job.livelock or _NO_LIVELOCK)
    return Claim(owner, _locks(op.lock_declaration(resolve)), (guard,))


def _locks(declaration: LockDeclaration) -> tuple[tuple[Lock, LockMode], ...]:
    locks = [(BGL, declaration.bgl)] if declaration.bgl is not None else []
    for level, entries in declaration.levels.items():
        locks += [(each.lock, each.mode) for each in requests_for(level, entries) if each.mode is not None]
    return tuple(locks)
