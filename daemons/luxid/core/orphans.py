"""What becomes of orphaned locks: what jobs claim under a new master, and what is asked of the nodes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from common.ids import JobId
from common.lockdecl import LockDeclaration, requests_for
from common.locks import BGL, Lock, LockLevel, LockMode, Owner
from common.objects.index import ConfigIndex
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job
from daemons.luxid.core.queue.recovery import NodeWork
from protocol.noded.commands import CommandPhase
from protocol.noded.statefiles import command_key
from protocol.wconfd.locks import Claim, CommandOnNode

# What jobs held under an earlier master, by their files: claimed from the locks of this one before others get it.
#
# The locks of a master do not move with it. A job's file tells what is under way, and the opcode which locks it
# declares.
#
# Source: DESIGN section 14, "New master".


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
    command = CommandOnNode(node.name if node is not None else work.node, key)
    owner = Owner(job.job_id, job.livelock or _NO_LIVELOCK)
    return Claim(owner, _locks(op.lock_declaration(resolve)), (command,))


def _locks(declaration: LockDeclaration) -> tuple[tuple[Lock, LockMode], ...]:
    locks = [(BGL, declaration.bgl)] if declaration.bgl is not None else []
    for level, entries in declaration.levels.items():
        locks += [(each.lock, each.mode) for each in requests_for(level, entries) if each.mode is not None]
    return tuple(locks)


# Which of the jobs found under a new master claim their locks, and which of them first.
#
# Theory. A job that another node's process had in its hands may have waited for its locks, or have begun its command:
# its file does not tell. Its node does, once it obeys the new master: a command of which nothing runs there is started
# by the new master or never. Two jobs that want one lock may both look as if they had begun, and the claim of the one
# that only waited must not keep the lock from the other. So a job claims if its node says that its command runs, and if
# its node is silent, after all those.
#
# Source: DESIGN section 14, "New master".


def claim_order(works: Mapping[JobId, NodeWork], running: Mapping[str, AbstractSet[str]]) -> Sequence[JobId]:
    """The jobs that claim, in order. Args: running: the keys that each node that has replied has processes of."""
    living = [job_id for job_id, work in works.items() if _key(job_id, work) in running.get(work.node, ())]
    silent = [job_id for job_id, work in works.items() if work.node not in running]
    return (*sorted(living), *sorted(silent))


def _key(job_id: JobId, work: NodeWork) -> str:
    return command_key(job_id, work.op_index, work.attempt)


# What to ask of a node about the commands of jobs that are over, after it has told all of its commands.
#
# Theory. Orphaned locks are kept until a node says that nothing of their command runs. So a command
# whose opcode is over is stopped, and its end is waited for. The node's word counts only if it is one of these:
#
#     ended, lost, void    nothing of it runs, and it will not be started
#     unknown              only in reply to a stop: what the node does not know it has made void, or had forgotten since
#                          its end; told in a list, it says nothing, as the start may be on its way
#
# Processes that a command left behind on purpose (*kept*) run on, unless a user asks for their end. Commands of opcodes
# that are not over are their job's affair, and are left alone whatever the node says.
#
# A command of a job that has ended, but keeps no orphaned locks, is stopped as well: a job is over when its command is.
# What has ended is forgotten by the node.
#
# Source: DESIGN sections 13 and 14.


# phase -> the node's word, as wconfd's log has it
_WORDS: Final[Mapping[CommandPhase, str]] = {
    CommandPhase.ENDED: "its command has ended",
    CommandPhase.LOST: "the node was restarted, nothing of its command is left",
    CommandPhase.VOID: "its command was never started, and will not be",
    CommandPhase.UNKNOWN: "its command has ended, and is forgotten",
}


@attrs.frozen
class Concern:
    """What is known here of keys."""

    # whether the opcode of a key is over: it has ended, or there is no such job
    is_over: Callable[[str], bool]
    # whether processes that it left are to be ended as well
    ends_kept: Callable[[str], bool]


@attrs.frozen(kw_only=True)
class Round:
    """What is to be done at a node. Each key is in one of these at most, or in both `ended` and `forget`."""

    stop: tuple[str, ...] = ()
    # the node's word -> keys of which it says so: their orphaned locks are released
    ended: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    forget: tuple[str, ...] = ()
    # keys of commands that keep orphaned locks, whose ends are to be waited for, with the phases that are known
    follow: Mapping[str, CommandPhase] = attrs.field(factory=dict)


def round_at(
    orphans: AbstractSet[str], told: Mapping[str, CommandPhase], stopped: Collection[str], concern: Concern
) -> Round:
    """What is to be done now; when the replies to `stop` are in `told`, ask again.

    Args:
        orphans: keys of commands that keep orphaned locks, at this node.
        told: the node's last word about each key that it knows.
        stopped: keys that it was asked to stop, and has replied.
    """
    stop: list[str] = []
    ended: dict[str, list[str]] = {}
    forget: list[str] = []
    follow: dict[str, CommandPhase] = {}
    for key in sorted({*orphans, *told}):
        if not concern.is_over(key):
            continue
        phase = told.get(key, CommandPhase.UNKNOWN)
        if key not in stopped and _is_to_be_stopped(key, phase, orphans, concern):
            stop.append(key)
        elif phase.may_run:
            if key in orphans:
                follow[key] = phase
        else:
            if key in orphans:
                ended.setdefault(_WORDS[phase], []).append(key)
            if phase in (CommandPhase.ENDED, CommandPhase.LOST):
                forget.append(key)
    words = {word: tuple(keys) for word, keys in ended.items()}
    return Round(stop=tuple(stop), ended=words, forget=tuple(forget), follow=follow)


def _is_to_be_stopped(key: str, phase: CommandPhase, orphans: AbstractSet[str], concern: Concern) -> bool:
    if phase is CommandPhase.KEPT:
        return concern.ends_kept(key)
    return phase is CommandPhase.RUNNING or (phase is CommandPhase.UNKNOWN and key in orphans)
