"""Which subscriber wants to hear of which job: a change of a job is told to those who named it, and to no others.

Source: DESIGN section 6.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from common.ids import JobId

S = TypeVar("S")


class Interests(Generic[S]):
    """The subscribers by the jobs that they named. Cost: O(jobs named) to come and go, O(1) for each one told."""

    def __init__(self) -> None:
        self._by_job: dict[JobId, dict[S, None]] = {}

    def add(self, subscriber: S, job_ids: Iterable[JobId]) -> None:
        for job_id in job_ids:
            self._by_job.setdefault(job_id, {})[subscriber] = None

    def drop(self, subscriber: S, job_ids: Iterable[JobId]) -> None:
        """Harmless when repeated."""
        for job_id in job_ids:
            named_by = self._by_job.get(job_id)
            if named_by is not None:
                named_by.pop(subscriber, None)
                if not named_by:
                    del self._by_job[job_id]

    def of(self, job_id: JobId) -> Iterator[S]:
        """The subscribers who named this job."""
        return iter(self._by_job.get(job_id, ()))

    def __len__(self) -> int:
        """The number of jobs that somebody named."""
        return len(self._by_job)
