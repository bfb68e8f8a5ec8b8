"""What has changed since subscribers were told last.

The parts that cause changes leave them here, at once and without waiting; `Feed` takes them in turns.

Source: DESIGN section 6.
"""

from collections.abc import Iterable, Mapping

import attrs
import trio

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.jobs import Job


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

    def job_changed(self, job_id: JobId, job: Job | None = None) -> None:
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

    def rules_changed(self, rules: Iterable[FilterRule]) -> None:
        """These rules are in force now."""
        ordered = tuple(sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid)))
        before, self.rules = self.rules, ordered
        if self.is_on and ordered != before:
            self.has_rules = True
            self._some.set()

    def queue_changed(self) -> None:
        """The drain flag, a limit or an obstacle changed; changes of jobs imply it."""
        if self.is_on:
            self._some.set()

    def reasons_changed(self) -> None:
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
