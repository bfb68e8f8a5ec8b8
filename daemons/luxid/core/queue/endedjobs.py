"""The final states of jobs that are not archived, and how many have each.

Source: DESIGN section 6.
"""

from collections.abc import Mapping

from common.ids import JobId
from common.queue.jobs import FINAL, JobState


class EndedJobs:
    """The final state of each ended job, until it is archived."""

    def __init__(self) -> None:
        self._states: dict[JobId, JobState] = {}
        self._counts = dict.fromkeys((state for state in JobState if state in FINAL), 0)

    def get(self, job_id: JobId) -> JobState | None:
        return self._states.get(job_id)

    def put(self, job_id: JobId, state: JobState) -> None:
        self.forget(job_id)
        self._states[job_id] = state
        self._counts[state] += 1

    def forget(self, job_id: JobId) -> None:
        if (state := self._states.pop(job_id, None)) is not None:
            self._counts[state] -= 1

    def counts(self) -> Mapping[JobState, int]:
        """The number of jobs in each final state. Cost: O(1)."""
        return dict(self._counts)
