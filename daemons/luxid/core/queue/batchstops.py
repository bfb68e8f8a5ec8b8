"""Batches that stop after failures: once too many of its jobs have failed, no further one begins.

Theory. Only the jobs of batches that may stop are noted, by batch, from when they come until they end. A failure is
counted for its batch; the one that is too much hands out the others, once. What has begun goes on; a job that has a
process and still waits for locks is asked to pause, and does not begin again. A job that was canceled is no failure.
Nothing is stored: after a restart the failed jobs that are still in the queue are counted.

A batch is known by its id and its owner, so that a job of another user cannot stop it.

Source: DESIGN section 13, "Fleet".
"""

from collections.abc import Iterable

import attrs

from common.ids import JobId
from common.queue.batch import batch_of
from common.queue.jobs import Job, JobState
from common.queue.submitter import JobOwner, owner_of

_Key = tuple[str, JobOwner | None]


@attrs.define
class _Batch:
    # number of failures that it bears
    allowed: int
    # jobs that have not ended
    members: dict[JobId, None] = attrs.field(factory=dict)
    failed: list[JobId] = attrs.field(factory=list)

    @property
    def is_stopped(self) -> bool:
        return len(self.failed) > self.allowed


class BatchStops:
    """The batches with jobs that have not ended and that stop after failures."""

    def __init__(self) -> None:
        self._batches: dict[_Key, _Batch] = {}
        self._keys: dict[JobId, _Key] = {}

    def enter(self, job: Job) -> None:
        """Note a job that has not ended; a second time nothing changes."""
        if (found := _place_of(job)) is not None:
            key, allowed = found
            self._keys[job.job_id] = key
            self._batches.setdefault(key, _Batch(allowed)).members[job.job_id] = None

    def failed_before(self, jobs: Iterable[Job]) -> None:
        """Count failed jobs found at start; those of batches without other jobs are forgotten.

        Call after `enter` of all that have not ended.
        """
        for job in jobs if self._batches else ():
            found = _place_of(job)
            if found is not None and found[0] in self._batches:
                self._batches[found[0]].failed.append(job.job_id)

    def end(self, job_id: JobId, state: JobState) -> tuple[JobId, ...]:
        """Take note that a job has ended; returns the jobs of a batch that this stops, of which some may have begun."""
        key = self._keys.pop(job_id, None)
        if key is None:
            return ()
        batch = self._batches[key]
        del batch.members[job_id]
        was_stopped = batch.is_stopped
        if state is JobState.ERROR:
            batch.failed.append(job_id)
        if not batch.members:
            del self._batches[key]
        return tuple(batch.members) if batch.is_stopped and not was_stopped else ()

    def stop_of(self, job_id: JobId) -> str | None:
        """Why the job must not begin any more; None: it may."""
        batch = self._batches[key] if (key := self._keys.get(job_id)) is not None else None
        if batch is None or not batch.is_stopped:
            return None
        count, last = len(batch.failed), batch.failed[-1]
        failed = (
            f"job {last} of its batch failed" if count == 1 else f"{count} jobs of its batch failed, last job {last}"
        )
        return f"canceled before it began, as {failed}"

    def stopped(self) -> tuple[JobId, ...]:
        """The jobs of batches that have stopped, of which some may have begun."""
        return tuple(job_id for batch in self._batches.values() if batch.is_stopped for job_id in batch.members)

    def __len__(self) -> int:
        return len(self._keys)


def _place_of(job: Job) -> tuple[_Key, int] | None:
    batch = batch_of(job)
    if batch is None or batch.failures is None:
        return None
    return (batch.batch_id, owner_of(job)), batch.failures
