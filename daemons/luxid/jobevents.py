"""What has happened to jobs, as the parts that bring it about tell it.

Source: DESIGN section 6.
"""

from collections.abc import Iterable
from typing import Protocol

from common.ids import JobId
from common.queue.jobs import Job


class JobEvents(Protocol):
    """Takes events in. What is told here has already happened on disk; nothing of it waits, and nothing raises."""

    def add(self, jobs: Iterable[Job]) -> None:
        """These jobs are new."""
        ...

    def requeue(self, job: Job) -> None:
        """A job without a process goes on waiting for its turn."""
        ...

    def started(self, job: Job) -> None:
        """The job, as just written, has a process."""
        ...

    def heeds_pauses(self, job_id: JobId) -> None:
        """The process of the job, of an external executor, has said that it heeds requests to pause."""
        ...

    def advanced(self, job: Job) -> None:
        """The process of the job has written this."""
        ...

    def ended(self, job: Job) -> None:
        """The job is final."""
        ...

    def archived(self, job_ids: Iterable[JobId]) -> None:
        """The files of these jobs are not among the live ones any more."""
        ...

    def obstruct(self, why: str) -> None:
        """Start no job until this obstacle is cleared."""
        ...

    def clear(self, why: str) -> None:
        """This obstacle is no more."""
        ...
