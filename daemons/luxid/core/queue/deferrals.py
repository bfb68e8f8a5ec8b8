"""The deferred jobs, and which of them begins next.

Theory. A heap has the instants at which jobs begin. A job that is deferred no longer, or to another instant, leaves its
old place in the heap, which is passed over when it comes up; when most places are such, the heap is made anew. So each
change costs O(log n), however many jobs are deferred. Instants are those of the wall clock, as users name them: a job
begins as soon as the clock shows its instant, also if the clock was set, and does not come back if it is set back.

Source: DESIGN section 16.
"""

import heapq
from typing import Final

from common.ids import JobId

# places passed over that are kept in any case
_STALE_KEPT: Final = 64


class Deferrals:
    """The deferred jobs."""

    def __init__(self) -> None:
        # None: it begins at a word
        self._until: dict[JobId, float | None] = {}
        self._heap: list[tuple[float, JobId]] = []
        # jobs with an instant
        self._timed = 0

    def __len__(self) -> int:
        return len(self._until)

    def enter(self, job_id: JobId, until: float | None) -> None:
        """Defer a job, which is not here. Args: until: seconds since the epoch; None: nobody knows."""
        self._until[job_id] = until
        if until is not None:
            self._timed += 1
            heapq.heappush(self._heap, (until, job_id))

    def leave(self, job_id: JobId) -> None:
        """Let go of a job that is deferred no longer."""
        if self._until.pop(job_id) is not None:
            self._timed -= 1
        if len(self._heap) > 2 * self._timed + _STALE_KEPT:
            self._heap = [(until, job_id) for job_id, until in self._until.items() if until is not None]
            heapq.heapify(self._heap)

    def first_at(self) -> float | None:
        """The first instant; None: all wait for a word."""
        while self._heap and not self._is_valid(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> tuple[JobId, ...]:
        """The jobs whose instants have come, in their order; they are to leave."""
        found: dict[JobId, None] = {}
        while (first_at := self.first_at()) is not None and first_at <= now_s:
            found[heapq.heappop(self._heap)[1]] = None
        return tuple(found)

    def _is_valid(self, place: tuple[float, JobId]) -> bool:
        return self._until.get(place[1]) == place[0]
