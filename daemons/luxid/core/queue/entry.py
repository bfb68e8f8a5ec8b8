"""A job that has not ended, as the core sees it.

Source: DESIGN section 6.
"""

import enum
from typing import Final

import attrs

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.explanation import Cause, Span
from common.queue.jobs import Job
from common.queue.terms import Deferral, Use
from daemons.luxid.core.choice.jobclasses import AdmissionTerms, admission_of
from daemons.luxid.core.choice.limits import CountedUser, Limit
from daemons.luxid.core.choice.weights import Needs
from daemons.luxid.core.filters.filtering import FilterClass, Ruling
from daemons.luxid.core.resources import Place, wants_of

# What the queue's core decides: the phases of jobs, and what the shell is to do.
#
# Source: DESIGN section 6.


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
    unknown: tuple[JobId, ...] = ()
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


# limits and wants of a ready job, which may be none; what a deferred one waits for; None: the job waits for nothing
WaitingOn = Phase | FilterRule | tuple[Limit, ...] | Cause | None


@attrs.define(eq=False)
class Entry:
    """A job that has not ended.

    Each field has one module that writes it: `entries` the phase, `history` what it waits for, `pauses` whether it is
    stopped, `jobqueue` what defers it, `judging` all else.
    """

    job: Job
    phase: Phase
    filter_class: FilterClass
    # limits that the job names itself
    buckets: tuple[Limit, ...]
    # locks of the next opcode, or of the one under way
    needs: Needs
    # tick in which the job was received; 0 if that is not known
    received_tick: int
    # summary of the opcode, if the job has only one: a list of all jobs need not read them
    summary: str | None = None
    # units that it takes with its slot
    uses: tuple[Use, ...] = ()
    # whom it counts for; None: nobody who is bounded
    user: CountedUser | None = None
    # whether its batch stopped before its first opcode had ended
    is_stopped: bool = False
    # what defers the job, whatever the time is now; None: nothing
    deferral: Deferral | None = None
    # pause, limits, wants and user; follows from the filter class, the buckets, the uses and the priority, and is asked
    # for at each change of phase
    admission: AdmissionTerms = attrs.field(init=False)
    # what `history` noted last: what the job waits for, since when, and for what before
    waiting_on: WaitingOn = None
    waiting_since: float = 0.0
    waited: tuple[Span, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.rule(self.filter_class)

    @property
    def ruling(self) -> Ruling:
        return self.filter_class.ruling

    @property
    def limits(self) -> tuple[Limit, ...]:
        return self.admission.limits

    @property
    def place(self) -> Place:
        """Its place among the jobs that wait for units."""
        return self.job.priority, self.received_tick, self.job.job_id

    def rule(self, filter_class: FilterClass) -> None:
        """Put the ruling of this filter class in force."""
        self.filter_class = filter_class
        ruling = filter_class.ruling
        limits = (*ruling.limits, *self.buckets) if ruling.limits else self.buckets
        wants = wants_of(self.uses, self.job.priority) if self.uses else ()
        self.admission = admission_of(limits, wants, self.user, is_paused=ruling.is_pause)
