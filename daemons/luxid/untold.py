"""Events of jobs that nobody has been told of yet, until the jobs that deliver them are in the queue.

The scheduler leaves them here, at once and without waiting. Without rules it costs nothing.

Source: DESIGN section 16; everyday.md section h.
"""

from collections import Counter
from collections.abc import Iterable

import attrs
import trio

from common.ids import JobId
from common.notify.payload import Event
from common.queue.jobs import Job, JobState
from common.system.log import get_log
from daemons.luxid.core.telling.occasions import Occasions, is_delivery

_log = get_log(__name__)


@attrs.frozen
class UntoldEvent:
    """An event, and the job as it was then."""

    key: str
    event: Event
    job: Job

    @property
    def job_ids(self) -> frozenset[JobId]:
        """The jobs that it tells of."""
        earlier = frozenset[JobId]() if self.event.batch is None else self.event.batch.earlier
        return earlier | {self.job.job_id}


@attrs.define
class Untold:
    """The events; `occasions` is set when luxid tells of jobs."""

    # None: nobody is told of anything
    occasions: Occasions | None = None
    # number of deliveries that were given up
    given_up: int = 0
    _events: dict[str, UntoldEvent] = attrs.Factory(dict)
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

    def put(self, job: Job, events: Iterable[Event]) -> None:
        """Keep events of a job; a later one with the same key counts."""
        for event in events:
            each = UntoldEvent(event.key(job.job_id), event, job)
            self.told(each.key)
            self._events[each.key] = each
            self._of_jobs.update(each.job_ids)
            self._some.set()

    def told(self, key: str) -> None:
        """Forget an event: its delivery is in the queue, or nobody will be told."""
        each = self._events.pop(key, None)
        if each is not None:
            for job_id in each.job_ids:
                self._of_jobs[job_id] -= 1
                if not self._of_jobs[job_id]:
                    del self._of_jobs[job_id]

    def is_told(self, job_id: JobId) -> bool:
        """Whether all events of the job, and of its batch, are on their way.

        Until then its file is neither archived nor removed.
        """
        return job_id not in self._of_jobs and not (self.occasions is not None and self.occasions.holds(job_id))

    async def first(self, most: int) -> list[UntoldEvent]:
        """The oldest events; waits until there are some."""
        while not self._events:
            self._some = trio.Event()
            await self._some.wait()
        return [each for each, _ in zip(self._events.values(), range(most), strict=False)]
