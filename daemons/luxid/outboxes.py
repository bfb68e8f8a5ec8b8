"""Outboxes: ended jobs for the history, changes for subscribers, events to notify of."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import trio

from common.ids import JobId
from common.metrics import Metrics, counter
from common.notify import JobNotification
from common.objects.filter import FilterRule
from common.queue.jobs import Job, JobState
from common.system.log import get_log
from daemons.luxid.core.telling import Occasions, is_delivery

# Jobs that have ended or were archived, until the history takes them.
#
# The parts that end jobs leave them here, at once and without waiting; the history takes them in groups. Costs an
# append for each job.
#
# Source: DESIGN section 16.


# jobs that wait here at most; of more, the history finds the files itself
MOST: Final = 10_000


@attrs.define
class HistoryOutbox:
    """What the history does not know yet."""

    _ended: list[Job] = attrs.Factory(list)
    _archived: list[JobId] = attrs.Factory(list)
    # whether there were more than it keeps
    _has_lost: bool = False
    # number of changes that were left here
    _come: int = 0
    _some: trio.Event = attrs.Factory(trio.Event)

    def __len__(self) -> int:
        return len(self._ended)

    @property
    def come(self) -> int:
        """Number of changes that were left here so far."""
        return self._come

    def ended(self, job: Job) -> None:
        """The job is final and durable."""
        self._come += 1
        if len(self._ended) < MOST:
            self._ended.append(job)
        else:
            self._has_lost = True
        self._some.set()

    def archived(self, job_ids: Iterable[JobId]) -> None:
        """The files of these ended jobs are in the archive."""
        self._come += 1
        if len(self._archived) < MOST:
            self._archived.extend(job_ids)
        else:
            self._has_lost = True
        self._some.set()

    def poke(self) -> None:
        """Let the history look, though there may be nothing."""
        self._some.set()

    async def wait(self) -> None:
        """Return when there is something to take."""
        await self._some.wait()

    @property
    def has_some(self) -> bool:
        return self._some.is_set()

    def peek(self) -> tuple[list[Job], list[JobId]]:
        """What is here: the jobs that have ended, and those that were archived."""
        return list(self._ended), list(self._archived)

    def drop(self, ended: int, archived: int) -> bool:
        """Forget the first ones, which are in the history now; return whether others were lost meanwhile."""
        del self._ended[:ended]
        del self._archived[:archived]
        if not self._ended and not self._archived:
            self._some = trio.Event()
        lost, self._has_lost = self._has_lost, False
        return lost


# What has changed since subscribers were told last.
#
# The parts that cause changes leave them here, at once and without waiting; `Feed` takes them in turns.
#
# Source: DESIGN section 6.


@attrs.define
class FeedNews:
    """The changes of a turn. Costs next to nothing while it is off: nobody subscribes."""

    is_on: bool = False
    # the rules in force; kept while it is off, too, for those who subscribe later
    rules: tuple[FilterRule, ...] = ()
    has_rules: bool = False
    has_reasons: bool = False
    _jobs: dict[JobId, Job | None] = attrs.Factory(dict)
    _grown: set[JobId] = attrs.Factory(set)
    _some: trio.Event = attrs.Factory(trio.Event)

    def tell_job(self, job_id: JobId, job: Job | None = None) -> None:
        """A job is new, different or archived.

        Args: job: the job as it is now, if it may not be in memory any more.
        """
        if self.is_on:
            if job is not None or job_id not in self._jobs:
                self._jobs[job_id] = job
            self._some.set()

    def log_grew(self, job_id: JobId) -> None:
        """A job's process has written a log line."""
        if self.is_on:
            self._grown.add(job_id)
            self._some.set()

    def tell_rules(self, rules: Iterable[FilterRule]) -> None:
        """These rules are in force now."""
        ordered = tuple(sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid)))
        before, self.rules = self.rules, ordered
        if self.is_on and ordered != before:
            self.has_rules = True
            self._some.set()

    def tell_queue(self) -> None:
        """The drain flag, a limit or an obstacle changed; changes of jobs imply it."""
        if self.is_on:
            self._some.set()

    def tell_reasons(self) -> None:
        """The reasons why jobs wait may be others."""
        if self.is_on:
            self.has_reasons = True
            self._some.set()

    async def wait(self) -> None:
        """Return when something has changed."""
        await self._some.wait()

    def take(self, most: int) -> tuple[Mapping[JobId, Job | None], frozenset[JobId]]:
        """Return changed jobs, at most so many, and with the last of them the jobs whose logs grew."""
        if len(self._jobs) <= most:
            taken, grown = self._jobs, frozenset(self._grown)
            self._jobs, self._grown, self._some = {}, set(), trio.Event()
            return taken, grown
        ids = [job_id for job_id, _ in zip(self._jobs, range(most), strict=False)]
        taken = {job_id: self._jobs.pop(job_id) for job_id in ids}
        return taken, frozenset()

    def drop(self) -> None:
        """Forget all, because nobody subscribes any more."""
        self.is_on = self.has_rules = self.has_reasons = False
        self._jobs, self._grown, self._some = {}, set(), trio.Event()


# Outbox of job events, until the jobs that deliver them are in the queue.
#
# The scheduler leaves them here, at once and without waiting. Without rules it costs nothing.
#
# Source: DESIGN section 16; everyday.md section h.


_log = get_log(__name__)


@attrs.frozen
class PendingNotice:
    """An event, and the job as it was then."""

    key: str
    event: JobNotification
    job: Job

    @property
    def job_ids(self) -> frozenset[JobId]:
        """The jobs that it tells of."""
        earlier = frozenset[JobId]() if self.event.batch is None else self.event.batch.earlier
        return earlier | {self.job.job_id}


@attrs.define
class NoticeOutbox(Metrics):
    """The events; `occasions` is set when luxid tells of jobs."""

    # None: nobody is told of anything
    occasions: Occasions | None = None
    given_up: int = counter("notices_given_up", "Deliveries of events that were given up.")
    _events: dict[str, PendingNotice] = attrs.Factory(dict)
    _of_jobs: Counter[JobId] = attrs.Factory(Counter)
    _some: trio.Event = attrs.Factory(trio.Event)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def rules_off(self) -> tuple[str, ...]:
        """The rules whose receivers want no more."""
        return () if self.occasions is None else self.occasions.rules_off

    def note_end(self, job: Job) -> None:
        """Count a delivery that was given up."""
        if is_delivery(job) and job.state is JobState.ERROR:
            self.given_up += 1

    def ended(self, job: Job) -> None:
        """The job is final and durable."""
        if self.occasions is not None:
            self.note_end(job)
            if (rule := self.occasions.refused(job)) is not None:
                effect = "nobody is told by this rule until luxid is restarted"
                _log.error("notify.off", rule=rule, reason="its receiver wants no more (410)", effect=effect)
            self.put(job, self.occasions.ended(job))

    def retried(self, job: Job) -> None:
        """The job is in the queue again."""
        if self.occasions is not None:
            self.put(job, self.occasions.retried(job))

    def put(self, job: Job, events: Iterable[JobNotification]) -> None:
        """Keep events of a job; a later one with the same key counts."""
        for event in events:
            each = PendingNotice(event.key(job.job_id), event, job)
            self.remove(each.key)
            self._events[each.key] = each
            self._of_jobs.update(each.job_ids)
            self._some.set()

    def remove(self, key: str) -> None:
        """Forget an event: its delivery is in the queue, or nobody will be told."""
        each = self._events.pop(key, None)
        if each is not None:
            for job_id in each.job_ids:
                self._of_jobs[job_id] -= 1
                if not self._of_jobs[job_id]:
                    del self._of_jobs[job_id]

    def is_notified(self, job_id: JobId) -> bool:
        """Whether all events of the job, and of its batch, are on their way.

        Until then its file is neither archived nor removed.
        """
        return job_id not in self._of_jobs and not (self.occasions is not None and self.occasions.holds(job_id))

    async def first(self, most: int) -> list[PendingNotice]:
        """The oldest events; waits until there are some."""
        while not self._events:
            self._some = trio.Event()
            await self._some.wait()
        return [each for each, _ in zip(self._events.values(), range(most), strict=False)]
