"""A job's command on a node, which outlives the process of the job: found in the job, for a new process to take it up.

Theory. The command has a key, and a start under a known key starts nothing. So an opcode whose process has died may be
given to another process, as often as necessary: it finds the command again, running or ended, or starts it for the
first time. No other opcode may.

Source: DESIGN sections 13 and 14.
"""

from typing import Final

import attrs

from common.errors import GantryError
from common.opcodes.base import OpCode
from common.opcodes.command import OnFailover, OpRunCommand
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job, JobOp, JobState
from common.queue.tries import tries_of

# seconds before the second process in a row, and at most, however many have died
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
# seconds before the second attempt of a start that came to nothing, and at most
_FIRST_START_PAUSE_S: Final = 0.1
_LONGEST_START_PAUSE_S: Final = 5.0
# seconds of life after which the death of a process is the first in a row
LONG_LIFE_S: Final = 60.0


@attrs.frozen
class NodeWork:
    """An opcode under way whose command may run on a node."""

    op_index: int
    # name of the node
    node: str
    # whether the command is to end when the master moves
    ends_on_failover: bool
    # number of the try, from 1
    attempt: int = 1


def node_work(job: Job) -> NodeWork | None:
    """The opcode of the job that a new process may take up; None: there is none."""
    index = job.next_index
    if index is None or job.ops[index].state is not JobState.RUNNING:
        return None
    op = _opcode(job.ops[index])
    if not isinstance(op, OpRunCommand) or op.node is None or not op.is_resumable or job.state is not JobState.RUNNING:
        return None
    attempt = len(tries_of(job.ops[index])) + 1
    return NodeWork(index, op.node, op.on_failover is OnFailover.KILL, attempt)


def _opcode(op: JobOp) -> OpCode | None:
    """The opcode as its file has it; None: it is unknown to us."""
    try:
        return parse_opcode(dict(op.input))
    except GantryError:
        return None


def pause_before(deaths: int, failures: int) -> float:
    """Seconds before a job gets its next process.

    Args:
        deaths: processes that died in a row, each after a short life.
        failures: starts in a row that came to nothing.
    """
    after_deaths = _doubled(FIRST_PAUSE_S, deaths - 1, LONGEST_PAUSE_S)
    return max(after_deaths, _doubled(_FIRST_START_PAUSE_S, failures, _LONGEST_START_PAUSE_S))


def _doubled(first_s: float, count: int, longest_s: float) -> float:
    """0 for the first, then a pause that doubles."""
    # the exponent is bounded: floats are not without end
    return 0.0 if count <= 0 else min(first_s * 2.0 ** min(count - 1, 30), longest_s)
