"""Whether all jobs of a batch have ended.

Theory. The ids of a batch's jobs follow one another, and ids of other jobs may lie at the edges. The first that has
not ended is remembered for each batch, so that all ends of a batch together look once at each of its jobs. A client
chooses the id of its batch, so two owners may have the same, and one of them may use it again.

A client states the size of its batch, so no file is looked for beyond the last id that was given.

Source: DESIGN section 16.
"""

import os
from collections import Counter
from collections.abc import Callable

import attrs

from common.ids import JobId
from common.notify.payload import BatchEnd
from common.paths import Paths
from common.queue.batch import Batch, batch_of
from common.queue.jobs import Job
from common.queue.submitter import JobOwner, owner_of
from daemons.luxid.jobs.livejobs import LiveJobs

# id and owner of a batch
_Key = tuple[str, JobOwner | None]


@attrs.define
class BatchEnds:
    """Looks at the live jobs. Args: serial: returns the last id that was given to a job."""

    _paths: Paths
    _jobs: LiveJobs
    _serial: Callable[[], JobId]
    # batch -> first job that may not have ended
    _next: dict[_Key, int] = attrs.Factory(dict)

    def find(self, job: Job, batch: Batch) -> BatchEnd | None:
        """The end of the job's batch; None: it has not ended."""
        first = max(1, job.job_id - batch.place + 1)
        last = min(job.job_id + batch.size - batch.place, self._serial())
        key = (batch.batch_id, owner_of(job))
        known = self._next.pop(key, first)
        # a place elsewhere is of another batch with this id
        at = known if first <= known <= last else first
        while at <= last and not self._is_awaited(JobId(at), job.job_id, key):
            at += 1
        if at <= last:
            self._next[key] = at
            return None
        counts = Counter(
            state.value
            for job_id in range(first, last + 1)
            if (state := self._jobs.queue.ended.get(JobId(job_id))) is not None and self._may_be_of(JobId(job_id), key)
        )
        return BatchEnd(batch.batch_id, dict(counts), job.received_at[0] if job.received_at else 0)

    def _is_awaited(self, job_id: JobId, ended: JobId, key: _Key) -> bool:
        if job_id not in self._jobs.table:
            # a later one may be durable, and about to be shown; earlier ones were shown before
            return job_id > ended and os.path.lexists(self._paths.job_file(job_id))
        job = self._jobs.table.in_memory(job_id)
        return job is not None and job.next_index is not None and self._may_be_of(job_id, key)

    def _may_be_of(self, job_id: JobId, key: _Key) -> bool:
        job = self._jobs.table.in_memory(job_id)
        batch = None if job is None else batch_of(job)
        return job is None or (batch is not None and (batch.batch_id, owner_of(job)) == key)
