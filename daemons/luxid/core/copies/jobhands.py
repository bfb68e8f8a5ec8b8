"""Which jobs come into the hands of a process with a change of their files, and which leave them.

Theory. A file that luxid writes with another livelock than the job's last gives it to a process; the file of an ended
job takes it away. A job that goes back to the queue keeps the livelock of its last process in its file, so the livelock
alone does not tell.

Source: DESIGN section 14; `daemons.luxid.core.copies.replaydecisions`.
"""

import attrs

from common.ids import JobId
from common.queue.jobs import Job
from daemons.luxid.core.copies.replaydecisions import has_process


@attrs.frozen
class Passing:
    """What a change of files does to jobs."""

    begun: frozenset[JobId] = frozenset()
    over: frozenset[JobId] = frozenset()


class JobHands:
    """The last livelocks of unended jobs."""

    def __init__(self) -> None:
        self._livelocks: dict[JobId, str] = {}
        self._running: set[JobId] = set()

    @property
    def running(self) -> frozenset[JobId]:
        """The jobs in the hands of processes."""
        return frozenset(self._running)

    def begun(self, job_id: JobId) -> None:
        """A process has this job, or may have, as etcd says."""
        self._running.add(job_id)

    def found(self, job: Job) -> None:
        """A job as it was when this luxid began."""
        self._note(job)

    def will_write(self, jobs: list[Job]) -> Passing:
        """Judge files that luxid is about to write."""
        begun = {job.job_id for job in jobs if has_process(job) and self._livelocks.get(job.job_id) != job.livelock}
        over = {job.job_id for job in jobs if job.next_index is None}
        return Passing(frozenset(begun), frozenset(over & self._running))

    def was_written(self, jobs: list[Job], *, are_dead: bool) -> Passing:
        """Judge files that processes have written. Args: are_dead: whether these processes have ended."""
        over = {job.job_id for job in jobs if are_dead or job.next_index is None}
        return Passing(over=frozenset(over & self._running))

    def not_written(self, jobs: list[Job]) -> Passing:
        """Judge files as they are, after another content was committed and could not be written."""
        other = {job.job_id for job in jobs if self._livelocks.get(job.job_id) != job.livelock}
        return Passing(over=frozenset(other & self._running))

    def gone(self, job_ids: frozenset[JobId]) -> Passing:
        """These jobs are no longer live."""
        return Passing(over=job_ids & self._running)

    def done(self, passing: Passing, jobs: list[Job]) -> None:
        """The change is committed. Args: jobs: as they were judged."""
        self._running = (self._running | passing.begun) - passing.over
        for job in jobs:
            self._note(job)

    def forget(self, job_ids: frozenset[JobId]) -> None:
        """These jobs are no longer live, and that is committed."""
        self._running -= job_ids
        for job_id in job_ids:
            self._livelocks.pop(job_id, None)

    def _note(self, job: Job) -> None:
        if has_process(job) and job.livelock is not None:
            self._livelocks[job.job_id] = job.livelock
        else:
            self._livelocks.pop(job.job_id, None)
