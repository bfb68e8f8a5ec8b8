"""How often waiting jobs were passed, and which of them are overdue.

Source: DESIGN section 16; `wconfd`'s `fairness` does the same for locks.
"""

from bisect import insort

import attrs

from common.ids import JobId
from daemons.luxid.core.resources.wants import Group, Place


@attrs.frozen(order=True)
class Overdue:
    """A job that was passed often enough; units are kept for the first one of each resource."""

    place: Place
    group: Group = attrs.field(order=False)

    @property
    def job_id(self) -> JobId:
        return JobId(self.place[2])


class Passes:
    """Passes and overdue jobs.

    Args: max_bypass: number of jobs that may pass one; at least 1.
    """

    def __init__(self, max_bypass: int) -> None:
        self._max_bypass = max_bypass
        self._passes: dict[JobId, int] = {}
        self._overdue: dict[JobId, Overdue] = {}
        # resource -> its overdue jobs, first one first; no empty entries
        self._lines: dict[str, list[Overdue]] = {}

    def passed(self, place: Place, group: Group) -> bool:
        """A job has passed this one, which has waited longest; return whether that made it overdue."""
        job_id = JobId(place[2])
        self._passes[job_id] = self._passes.get(job_id, 0) + 1
        if self._passes[job_id] < self._max_bypass or job_id in self._overdue:
            return False
        overdue = self._overdue[job_id] = Overdue(place, group)
        for resource in group.resources:
            insort(self._lines.setdefault(resource, []), overdue)
        return True

    def forget(self, job_id: JobId) -> tuple[str, ...]:
        """The job waits no longer; return the resources for which it was overdue."""
        self._passes.pop(job_id, None)
        overdue = self._overdue.get(job_id)
        return () if overdue is None else self._suspend(overdue)

    def suspend(self, group: Group) -> tuple[str, ...]:
        """No job of the group is overdue while something else holds it; return the resources concerned.

        Passes are kept: the next one makes it overdue again. Cost: linear in the overdue jobs.
        """
        found = [each for each in self._overdue.values() if each.group is group]
        return tuple(resource for each in found for resource in self._suspend(each))

    def first(self, resource: str) -> Overdue | None:
        """The job for which units of this resource are kept; None: there is none."""
        line = self._lines.get(resource)
        return line[0] if line else None

    def is_overdue(self, job_id: JobId) -> bool:
        return job_id in self._overdue

    def _suspend(self, overdue: Overdue) -> tuple[str, ...]:
        del self._overdue[overdue.job_id]
        for resource in overdue.group.resources:
            line = self._lines[resource]
            line.remove(overdue)
            if not line:
                del self._lines[resource]
        return overdue.group.resources
