"""What the queue's core decides: the phases of jobs, and what the shell is to do.

Source: DESIGN section 6.
"""

import enum
from typing import Final

import attrs

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.waithistory import Span


class Phase(enum.Enum):
    """Where a job that has not ended stands; the theory is in `entries`."""

    READY = "ready"
    BLOCKED = "blocked"
    DEFERRED = "deferred"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    ORPHANED = "orphaned"

    # members are single, so identity will do: the hash of Enum is slow, and phases are counted at each change
    __hash__ = object.__hash__


# the job has no process and is not about to get one, and no task rewrites its file
AT_REST: Final = (Phase.READY, Phase.BLOCKED, Phase.DEFERRED)


@attrs.frozen
class Doomed:
    """A job whose next opcode can never start, and why."""

    job_id: JobId
    # True: it is canceled, as is a job it depends on, or its batch; else it fails
    is_canceled: bool
    reason: str
    # whether failures of its batch are the cause, not a job it depends on
    by_batch: bool = False


@attrs.frozen
class Rejected:
    """A job without a process that a rule rejects: to be canceled."""

    job_id: JobId
    rule: FilterRule


@attrs.frozen
class Waited:
    """What held a job that waits no longer."""

    job_id: JobId
    spans: tuple[Span, ...]


@attrs.frozen
class Decisions:
    # jobs to start, in this order; they are `starting` now
    start: tuple[JobId, ...] = ()
    # jobs to end, as are the rejected ones; they are `held` now
    doomed: tuple[Doomed, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    # jobs that waited for others until now, and read queued again
    unblocked: tuple[JobId, ...] = ()
    # jobs that were deferred until now, whether they wait for others or not
    begun: tuple[JobId, ...] = ()
    # jobs that others wait for, and whose states the shell is to find out
    untold: tuple[JobId, ...] = ()
    # running jobs to stop before their next opcode, and those that need not any more
    pause: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()
    # spans to write to the histories of these jobs
    waited: tuple[Waited, ...] = ()
    # True: jobs have still to be judged by a new chain of rules; call `decide` again
    is_unfinished: bool = False


@attrs.frozen
class QueueCounts:
    ready: int
    blocked: int
    deferred: int
    held: int
    starting: int
    running: int
    orphaned: int

    @property
    def waiting_to_start(self) -> int:
        return self.ready + self.blocked + self.deferred + self.held
