"""What becomes of a job whose process is gone: it goes on, or it ends, and with which results.

A process that ended between two opcodes, of its own will or not, leaves only ended and queued
opcodes: the job is continued by a new process, and no opcode runs twice. One that died while an
opcode was under way leaves that opcode in doubt; it is never repeated but becomes an error, and so do
those after it. What had ended stays as it is. One that waits for locks is under way, too: a job process of
Ganeti goes back from running to waiting when its opcode is to be tried again (luxid.md 4.3).

An opcode whose command runs on a node goes on without its process, and is taken up by another one (`nodework`).

Source: DESIGN sections 7 and 11; luxid.md 4.4, 5.8, 5.9.
"""

import enum
from collections.abc import Sequence
from typing import Final

import attrs

from common.access import Caller, caller_text
from common.errors import ExecutionError
from common.queue.endtexts import CANCELED_TEXT, KILLED_TEXT, PRECEDING_FAILED
from common.queue.jobs import FINAL, Job, JobOp, JobState, LogEntry, OpEvent, Timestamp, end_job, replace_op
from common.queue.reasons import ReasonEntry
from daemons.luxid.core.queue.nodework import node_work

DEATH_SOURCE: Final = "gnt:daemon:luxid:deathdetection"
START_SOURCE: Final = "gnt:daemon:luxid:startjobs"
FILTER_SOURCE: Final = "gnt:daemon:luxid:filter"
DEPENDENCY_SOURCE: Final = "gnt:daemon:luxid:dependency"
BATCH_SOURCE: Final = "gnt:daemon:luxid:batch"
CANCEL_SOURCE: Final = "gnt:daemon:luxid:cancel"
# the only states in a job with more to do and nothing under way
_BETWEEN_OPCODES: Final = frozenset({JobState.SUCCESS, JobState.QUEUED})


class Ask(enum.Enum):
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
    job: Job, ask: Ask | None, now: Timestamp, now_ns: int, asked_by: str = "", circumstances: Circumstances = _HERE
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
    if ask is Ask.KILL:
        text = KILLED_TEXT + asked_by
        if circumstances.takes_up:
            job = _with_work_told(job, now)
        return end_job(_told(job, DEATH_SOURCE, text, now_ns), OpEvent.CANCELED, now, [text])
    if is_canceling or (ask is Ask.CANCEL and not is_running):
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
        "ended; 'gantry ghosts' lists them"
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
