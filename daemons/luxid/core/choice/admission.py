"""The admission classes of the ready jobs: which are closed, because a filter pauses them or a limit is full.

Source: DESIGN section 6, "Selection".
"""

from collections.abc import Iterable

from daemons.luxid.core.choice.jobclasses import Admission, AdmissionClass
from daemons.luxid.core.choice.ratelimit import Limit, LimitUsage


class AdmissionClasses:
    """All admission classes that have jobs."""

    def __init__(self, limit_usage: LimitUsage) -> None:
        self._limit_usage = limit_usage
        self._admissions: dict[Admission, AdmissionClass] = {}
        # limit -> admission classes that it closes when full
        self._limited: dict[Limit, dict[AdmissionClass, None]] = {}
        # partitions looked at so far
        self.touched = 0

    def __len__(self) -> int:
        return len(self._admissions)

    def find(self, key: Admission) -> AdmissionClass:
        """The admission class of this key; made if there is none."""
        admission = self._admissions.get(key)
        if admission is None:
            closed_by = key.is_paused + sum(self._limit_usage.is_full(limit) for limit in key.limits)
            admission = self._admissions[key] = AdmissionClass(key, closed_by)
            for limit in key.limits:
                self._limited.setdefault(limit, {})[admission] = None
        return admission

    def drop(self, admission: AdmissionClass) -> None:
        """Forget a class that has no jobs any more."""
        del self._admissions[admission.key]
        for limit in admission.key.limits:
            del self._limited[limit][admission]
            if not self._limited[limit]:
                del self._limited[limit]

    def close(self, limits: Iterable[Limit]) -> None:
        """These limits are full now. Cost: linear in the partitions that they close, not in the jobs."""
        self._count(limits, 1)

    def open(self, limits: Iterable[Limit]) -> None:
        """These limits have room now. Cost: as `close`."""
        self._count(limits, -1)

    def _count(self, limits: Iterable[Limit], step: int) -> None:
        for limit in limits:
            for admission in self._limited.get(limit, ()):
                before, admission.closed_by = admission.closed_by, admission.closed_by + step
                # between closed by one and by several nothing shows
                for partition in admission.partitions.values() if not (before and admission.closed_by) else ():
                    self.touched += 1
                    partition.refresh()
