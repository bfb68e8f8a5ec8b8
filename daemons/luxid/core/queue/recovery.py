"""What becomes of a job whose process is gone: it goes on, or it ends, and with which results.

A process that ended between two opcodes, of its own will or not, leaves only ended and queued
opcodes: the job is continued by a new process, and no opcode runs twice. One that died while an
opcode was under way leaves that opcode in doubt; it is never repeated but becomes an error, and so do
those after it. What had ended stays as it is. One that waits for locks is under way, too: a job process of
Ganeti goes back from running to waiting when its opcode is to be tried again (luxid.md 4.3).

An opcode whose command runs on a node goes on without its process, and is taken up by another one (`node_work`).

Source: DESIGN sections 7 and 11; luxid.md 4.4, 5.8, 5.9.
"""

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from common.access import Caller, caller_text
from common.commands.retryrules import MOST_LOST, lost_pause
from common.errors import ExecutionError, GantryError
from common.opcodes.base import OpCode
from common.opcodes.command import OnFailover, OpNotify, OpRunCommand
from common.opcodes.registry import parse_opcode
from common.queue.jobs import (
    CANCELED_TEXT,
    FINAL,
    KILLED_TEXT,
    PRECEDING_FAILED,
    Job,
    JobOp,
    JobState,
    LogEntry,
    OpEvent,
    Timestamp,
    end_job,
    replace_op,
    to_seconds,
    to_timestamp,
)
from common.queue.reasons import ReasonEntry, Try, counted, lost_in_a_row, tries_of, with_failed_try

# A job's command on a node, which outlives the process of the job: found in the job, for a new process to take it up.
#
# Theory. The command has a key, and a start under a known key starts nothing. So an opcode whose process has died may
# be given to another process, as often as necessary: it finds the command again, running or ended, or starts it for the
# first time. No other opcode may.
#
# Source: DESIGN sections 13 and 14.


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


DEATH_SOURCE: Final = "gnt:daemon:luxid:deathdetection"
START_SOURCE: Final = "gnt:daemon:luxid:startjobs"
FILTER_SOURCE: Final = "gnt:daemon:luxid:filter"
DEPENDENCY_SOURCE: Final = "gnt:daemon:luxid:dependency"
BATCH_SOURCE: Final = "gnt:daemon:luxid:batch"
CANCEL_SOURCE: Final = "gnt:daemon:luxid:cancel"
# the only states in a job with more to do and nothing under way
_BETWEEN_OPCODES: Final = frozenset({JobState.SUCCESS, JobState.QUEUED})


class RecoveryRequest(enum.Enum):
    """What was asked for a job that has a process."""

    CANCEL = "cancel"
    KILL = "kill"


class Fate(enum.Enum):
    """What a job is, judged by its file and by whether its process lives."""

    ENDED = "ended"
    ALIVE = "alive"
    CONTINUE = "continue"  # no process, nothing under way
    DEAD = "dead"  # no process, but an opcode under way
    TAKE_UP = "take up"  # no process, but a command under way on a node, for a new process to take up


def judge_fate(job: Job, *, is_alive: bool, takes_up: bool = False) -> Fate:
    """A job counts as ended when all its opcodes have; a process may still be about to mark the last ones.

    Args: takes_up: whether commands run on nodes, out of reach of the deaths of processes here.
    """
    if job.next_index is None:
        return Fate.ENDED
    if is_alive:
        return Fate.ALIVE
    if takes_up and node_work(job) is not None:
        return Fate.TAKE_UP
    return Fate.CONTINUE if _BETWEEN_OPCODES.issuperset([op.state for op in job.ops]) else Fate.DEAD


@attrs.frozen(kw_only=True)
class Circumstances:
    """What counts beside the job when its process has died."""

    # as in `judge_fate`
    takes_up: bool = False
    # whether the process ran under an earlier master
    has_moved: bool = False


_HERE: Final = Circumstances()


def after_death(
    job: Job,
    ask: RecoveryRequest | None,
    now: Timestamp,
    now_ns: int,
    asked_by: str = "",
    circumstances: Circumstances = _HERE,
) -> Job | None:
    """The job, ended, as it is to be written; None: it goes on with a new process.

    A job that was to be canceled and whose process died before its opcode began is canceled.

    Args:
        asked_by: ` of user 1003`, who asked for its end; "": that is not known.
    """
    is_running = any(op.state is JobState.RUNNING for op in job.ops)
    is_canceling = any(op.state is JobState.CANCELING for op in job.ops)
    if job.is_final and not is_canceling:
        return end_job(job, OpEvent.FAILED, now, [PRECEDING_FAILED])
    if ask is RecoveryRequest.KILL:
        text = KILLED_TEXT + asked_by
        if circumstances.takes_up:
            job = _with_work_told(job, now)
        return end_job(_told(job, DEATH_SOURCE, text, now_ns), OpEvent.CANCELED, now, [text])
    if is_canceling or (ask is RecoveryRequest.CANCEL and not is_running):
        return end_job(job, OpEvent.CANCELED, now, [CANCELED_TEXT + asked_by])
    fate = judge_fate(job, is_alive=False, takes_up=circumstances.takes_up)
    text = f"the process of job {job.job_id} died before the job ended"
    if fate is Fate.TAKE_UP:
        text = _end_by_failover(job, circumstances)
    return None if fate is Fate.CONTINUE or not text else fail_job(job, text, DEATH_SOURCE, now, now_ns)


def _with_work_told(job: Job, now: Timestamp) -> Job:
    """The job with a line in its log, if its command may run on."""
    work = node_work(job)
    if work is None:
        return job
    op = job.ops[work.op_index]
    text = (
        f"the command may still run on node '{work.node}', so the job's locks are kept until it is known that it has "
        "ended; 'gantry orphaned-locks' lists them"
    )
    entry = LogEntry(job.next_log_serial, now, "message", text)
    return replace_op(job, work.op_index, attrs.evolve(op, log=(*op.log, entry)))


def _end_by_failover(job: Job, circumstances: Circumstances) -> str:
    """Why the job ends with its master; empty: it does not."""
    work = node_work(job)
    if work is None or not (work.ends_on_failover and circumstances.has_moved):
        return ""
    return f"the master has moved, and on_failover is 'kill': the command on node '{work.node}' is being stopped"


def fail_job(job: Job, text: str, source: str, now: Timestamp, now_ns: int) -> Job:
    """End the job by a failure outside its opcodes; the text is the result and the reason."""
    return end_job(_told(job, source, text, now_ns), OpEvent.FAILED, now, [text, PRECEDING_FAILED])


def fail_dependent(job: Job, reason: str, now: Timestamp) -> Job:
    """End the job because its next opcode's dependency failed."""
    return end_job(job, OpEvent.FAILED, now, [[ExecutionError.wire_name, [reason]], PRECEDING_FAILED])


def cancel_queued(job: Job, now: Timestamp) -> Job:
    """End a job that has no process by cancelling what has not ended; the results stay null."""
    return end_job(job, OpEvent.CANCELED, now, [None])


def cancel_for(job: Job, caller: Caller, now: Timestamp, now_ns: int) -> Job:
    """End a job that has no process because a user asked for it; the reason names the user."""
    return cancel_queued(_told(job, CANCEL_SOURCE, f"canceled on request of {caller_text(caller)}", now_ns), now)


def cancel_dependent(job: Job, reason: str, now: Timestamp, now_ns: int) -> Job:
    """End a job that has no process because one that it depends on was canceled; the reason says which."""
    return cancel_queued(_told(job, DEPENDENCY_SOURCE, reason, now_ns), now)


def cancel_stopped(job: Job, reason: str, now: Timestamp, now_ns: int) -> Job:
    """End a job that has not begun because its batch stops; the reason says after which failures."""
    return cancel_queued(_told(job, BATCH_SOURCE, reason, now_ns), now)


def cancel_rejected(job: Job, uuid: str, now: Timestamp, now_ns: int) -> Job:
    """End a job that has no process because a filter rule rejects it; the reason says so."""
    return cancel_queued(_told(job, FILTER_SOURCE, f"rejected by filter rule {uuid}", now_ns), now)


def _told(job: Job, source: str, text: str, now_ns: int) -> Job:
    """Return the job with a reason in each opcode that has not ended."""
    entry = ReasonEntry(source, text, now_ns)
    return attrs.evolve(job, ops=tuple(op if op.state in FINAL else _with_reason(op, entry) for op in job.ops))


def _with_reason(op: JobOp, entry: ReasonEntry) -> JobOp:
    trail: object = op.input.get("reason")
    known: Sequence[object] = trail if isinstance(trail, list | tuple) else ()
    return attrs.evolve(op, input={**op.input, "reason": [*known, entry.to_wire()]})


# A command whose try was lost with the process of its job: back to the queue, if its submitter allows that.
#
# Theory. No opcode runs twice (DESIGN section 3, invariant 5), but for a command of which its submitter has said that
# it may: `rerunnable`. Nobody knows how far the lost try came, so it is not counted among those that failed. It is
# over: the livelock of the process is free, which the supervisor of its command holds as well until nothing of it
# lives; or an earlier master's lease is over, and with it all that ran under it. A command on a node is taken up
# instead (`node_work`).
#
# A try that is lost each time does not go on for ever: after `MOST_LOST` in a row the job fails as others do.
#
# Source: DESIGN section 16; everyday.md b, j.


_UNDER_WAY: Final = (JobState.WAITING, JobState.RUNNING)


def is_rerunnable(job: Job, *, takes_up: bool = False) -> bool:
    """Whether the job, whose process is dead, may try its command again. Args: takes_up: as for `judge_fate`."""
    if judge_fate(job, is_alive=False, takes_up=takes_up) is not Fate.DEAD:
        return False
    op = _op_under_way(job)
    return op is not None and _command(op).rerunnable is True and lost_in_a_row(tries_of(op)) < MOST_LOST


def after_lost_try(job: Job, now_s: float, output_ends: tuple[int, int]) -> Job:
    """The job with its command in the queue again, as it is to be written; it `is_rerunnable`.

    Args:
        now_s: seconds since the epoch.
        output_ends: bytes of its output, and of its standard error, so far.
    """
    op, index = _op_under_way(job), job.next_index
    assert op is not None
    assert index is not None
    before, now = tries_of(op), to_timestamp(now_s)
    pause_s = lost_pause(lost_in_a_row(before))
    lost = Try(
        number=len(before) + 1,
        start_at=now_s if op.exec_at is None else to_seconds(op.exec_at),
        end_at=now_s,
        why="was lost with the process of its job",
        exit_code=None,
        next_at=now_s + pause_s,
        output_end=output_ends[0],
        error_end=output_ends[1],
        is_lost=True,
    )
    of = _command(op).retry_policy.tries + lost.number - counted(before)
    text = f"try {lost.number} of {of} {lost.why}, and is not counted; it is run again"
    told = attrs.evolve(op, log=(*op.log, LogEntry(job.next_log_serial, now, "message", text)))
    return replace_op(job, index, with_failed_try(told, lost, now))


def _op_under_way(job: Job) -> JobOp | None:
    index = job.next_index
    op = None if index is None else job.ops[index]
    return op if op is not None and op.state in _UNDER_WAY and op.input.get("rerunnable") else None


def _command(op: JobOp) -> OpRunCommand | OpNotify:
    """The opcode of a rerunnable command; of one that cannot be read an empty one, which is not."""
    try:
        found = parse_opcode(dict(op.input))
    except GantryError:
        return _UNREAD
    return found if isinstance(found, OpRunCommand | OpNotify) else _UNREAD


_UNREAD: Final = OpRunCommand(argv=("true",))
