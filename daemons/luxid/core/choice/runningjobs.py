"""What the jobs with a process take from the ready ones: room in limits, units of resources, and locks.

Source: DESIGN section 6.
"""

from collections.abc import Mapping

from common.ids import JobId
from common.locks import Lock, LockMode
from daemons.luxid.core.choice.aliases import Aliases
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.ratelimit import BatchLimit, Limit, LimitUsage
from daemons.luxid.core.choice.readyjobs import ReadyJobs
from daemons.luxid.core.choice.runninglocks import RunningLocks
from daemons.luxid.core.filters.filterclasses import FilterClass
from daemons.luxid.core.queue.entry import Entry
from daemons.luxid.core.resources.units import Units


class RunningJobs:
    """The jobs that have a process, or for which one is being made; tells the ready ones what changes for them."""

    def __init__(self, ready: ReadyJobs, locks: RunningLocks, limit_usage: LimitUsage, units: Units) -> None:
        self._ready = ready
        self._locks = locks
        self._limit_usage = limit_usage
        self._units = units
        # jobs whose process is gone, and that have neither ended nor wait again: they keep their places in batches, and
        # their units
        self.kept: dict[JobId, tuple[Limit, ...]] = {}

    def add(self, entry: Entry, *, is_chosen: bool) -> None:
        """Count a job from now on: it has a process, or is about to.

        Args: is_chosen: it was the best of the ready ones; false: it was found with a process or a command.
        """
        job_id = entry.job.job_id
        self.release(job_id)
        if entry.uses:
            self._units.take(job_id, entry.uses, entry.place if is_chosen else None)
        self._ready.close(self._limit_usage.enter(job_id, entry.limits))
        self._ready.names_changed(self._locks.declare(job_id, entry.needs))

    def remove(self, entry: Entry) -> None:
        """Count a job no longer, but for its batch and its units: its process is gone."""
        job_id = entry.job.job_id
        if (kept := tuple(limit for limit in entry.limits if isinstance(limit, BatchLimit))) or entry.uses:
            self.kept[job_id] = kept
        self._ready.open(self._limit_usage.leave(job_id, [limit for limit in entry.limits if limit not in kept]))
        self._ready.names_changed(self._locks.leave(job_id))

    def release(self, job_id: JobId, *, lives_on: bool = False) -> None:
        """Count a job without a process no longer at all: it has ended, or waits for its turn again.

        Args: lives_on: processes that it started may live under its locks: it keeps its units.
        """
        if (kept := self.kept.pop(job_id, None)) is not None:
            self._ready.open(self._limit_usage.leave(job_id, kept))
            if not lives_on:
                self._units.give(job_id)

    def rule(self, entry: Entry, filter_class: FilterClass) -> None:
        """Put a new ruling on a job in force: it counts against the limits of that one."""
        job_id = entry.job.job_id
        self._ready.open(self._limit_usage.leave(job_id, entry.ruling.limits))
        entry.rule(filter_class)
        self._ready.close(self._limit_usage.enter(job_id, entry.ruling.limits))

    def declare(self, job_id: JobId, needs: Needs) -> None:
        """Take note that another opcode of the job is under way."""
        self._ready.names_changed(self._locks.declare(job_id, needs))

    def set_held(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> None:
        """Take note that the job holds exactly these locks; nothing follows for one without a process."""
        self._ready.names_changed(self._locks.set_held(job_id, held))

    def set_aliases(self, aliases: Aliases) -> None:
        """Compare locks by these names for the same object from now on."""
        self._ready.names_changed(self._locks.set_aliases(aliases))
