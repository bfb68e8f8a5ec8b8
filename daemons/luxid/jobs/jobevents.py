"""Events of jobs, reported by the parts that cause them.

Source: DESIGN section 6.
"""

from collections.abc import Iterable
from typing import Protocol

from common.ids import JobId
from common.queue.jobs import Job


class JobEvents(Protocol):
    """Receives events. Each event has already happened on disk; no method waits or raises."""

    def add(self, jobs: Iterable[Job]) -> None:
        """These jobs are new."""
        ...

    def requeue(self, job: Job) -> None:
        """A job without a process waits for its turn again; one with a command on a node, for its next process."""
        ...

    def started(self, job: Job) -> None:
        """The job, as just written, has a process."""
        ...

    def heeds_pauses(self, job_id: JobId) -> None:
        """The job's process, of an external executor, supports requests to pause."""
        ...

    def advanced(self, job: Job) -> None:
        """The job's process has written this state."""
        ...

    def ended(self, job: Job) -> None:
        """The job is final."""
        ...

    def archived(self, job_ids: Iterable[JobId]) -> None:
        """The files of these jobs have left the live queue."""
        ...

    def obstruct(self, why: str) -> None:
        """Start no job until this obstacle is cleared."""
        ...

    def clear(self, why: str) -> None:
        """This obstacle is gone."""
        ...
