"""Ready jobs beside running ones: what these take away, and which of those is next.

Joins the index of the ready jobs, the places in limits and the locks of those that have a process, so
that a change in one reaches the others.

Source: DESIGN section 6.
"""

from collections.abc import Mapping

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode
from common.objects.filter import FilterRule
from common.queue.jobs import Job
from common.queue.waithistory import Span
from daemons.luxid.core.choice.aliases import Aliases
from daemons.luxid.core.choice.jobclasses import Admission, admission_of
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.pick import Picker, Rank
from daemons.luxid.core.choice.ratelimit import Limit, LimitUsage
from daemons.luxid.core.choice.runninglocks import RunningLocks
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.filters.filterclasses import FilterClass
from daemons.luxid.core.filters.filtering import Ruling
from daemons.luxid.core.queue.decisions import Phase

# a ready job by its limits, which may be none, and its turn; one without anything that holds it: None
WaitingOn = Phase | FilterRule | tuple[Limit, ...] | None


@attrs.define(eq=False)
class Entry:
    """A job that has not ended. Written by the queue alone."""

    job: Job
    phase: Phase
    filter_class: FilterClass
    buckets: tuple[Limit, ...]
    # of the next opcode, or the one under way
    needs: Needs
    # of the opcode, if the job has only one: who lists all jobs need not read them
    summary: str | None = None
    # as `history` has seen it last: what holds it, since when, and what did before
    waiting_on: WaitingOn = None
    waiting_since: float = 0.0
    waited: tuple[Span, ...] = ()

    @property
    def ruling(self) -> Ruling:
        return self.filter_class.ruling

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (*self.ruling.limits, *self.buckets) if self.ruling.limits else self.buckets

    @property
    def admission(self) -> Admission:
        return admission_of(limits=self.limits, is_paused=self.ruling.is_pause)


class Contest:
    """Who is ready, who has a process, and who is next."""

    def __init__(self, weights: WeightRules) -> None:
        self.weights = weights
        self.limit_usage = LimitUsage()
        self.running_locks = RunningLocks(weights)
        self._picker = Picker(weights, self.running_locks, self.limit_usage)

    @property
    def touched(self) -> int:
        return self._picker.touched

    def offer(self, entry: Entry) -> None:
        """The job is ready."""
        job = entry.job
        self._picker.add(job.job_id, self.tick_of(job), job.priority, entry.needs, entry.admission)

    def withdraw(self, job_id: JobId) -> None:
        """The job is ready no longer."""
        self._picker.remove(job_id)

    def refile(self, entry: Entry) -> None:
        """The job, which is ready, has other limits, or is paused or not otherwise than before."""
        job = entry.job
        self._picker.refile(job.job_id, self.tick_of(job), entry.admission)

    def enter(self, entry: Entry) -> None:
        """The job has a process, or is about to."""
        job_id = entry.job.job_id
        self._picker.close(self.limit_usage.enter(job_id, entry.limits))
        self._picker.names_changed(self.running_locks.declare(job_id, entry.needs))

    def leave(self, entry: Entry) -> None:
        """The job has a process no longer."""
        job_id = entry.job.job_id
        self._picker.open(self.limit_usage.leave(job_id, entry.limits))
        self._picker.names_changed(self.running_locks.leave(job_id))

    def rule(self, entry: Entry, filter_class: FilterClass) -> None:
        """Another word of the filters on a job with a process."""
        job_id = entry.job.job_id
        self._picker.open(self.limit_usage.leave(job_id, entry.ruling.limits))
        entry.filter_class = filter_class
        self._picker.close(self.limit_usage.enter(job_id, entry.ruling.limits))

    def declare(self, job_id: JobId, needs: Needs) -> None:
        """Another opcode of a job with a process is under way."""
        self._picker.names_changed(self.running_locks.declare(job_id, needs))

    def set_held(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> None:
        """The job holds exactly these locks; nothing follows for one without a process."""
        self._picker.names_changed(self.running_locks.set_held(job_id, held))

    def set_aliases(self, aliases: Aliases) -> None:
        """These are the words for locks now."""
        self._picker.names_changed(self.running_locks.set_aliases(aliases))

    def best(self, now_s: float) -> JobId | None:
        """The ready job that is next; None: there is none that may start."""
        return self._picker.best(self.weights.tick(now_s))

    def rank(self, entry: Entry, now_s: float) -> Rank:
        """The place of a job in the order of starts at this moment."""
        tick = self.tick_of(entry.job)
        factor = self.weights.factor(tick, self.weights.tick(now_s))
        return entry.job.priority, self.running_locks.weight_of(entry.needs) * factor, (tick, entry.job.job_id)

    def ahead(self, entry: Entry, now_s: float, named: int) -> tuple[int, tuple[JobId, ...]]:
        """How many are started before the job if nothing changes, and the first of them; as `Picker.ahead`."""
        return self._picker.ahead(self.rank(entry, now_s), self.weights.tick(now_s), named)

    def groups(self) -> int:
        """How many groups the ready jobs make; 0 when there are none."""
        return self._picker.groups()

    def tick_of(self, job: Job) -> int:
        """The tick in which the job was received; the first one if that is not known."""
        return self.weights.tick(job.received_at[0]) if job.received_at else 0
