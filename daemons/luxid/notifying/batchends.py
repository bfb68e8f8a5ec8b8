"""Whether all jobs of a batch have ended.

Theory. The ids of a batch's jobs follow one another, and ids of other jobs may lie at the edges. The first that has
not ended is remembered for each batch, so that all ends of a batch together look once at each of its jobs.

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
from daemons.luxid.jobs.livejobs import LiveJobs


@attrs.define
class BatchEnds:
    """Looks at the live jobs. Args: serial: returns the last id that was given to a job."""

    _paths: Paths
    _jobs: LiveJobs
    _serial: Callable[[], JobId]
    # id of a batch -> first job that may not have ended
    _next: dict[str, int] = attrs.Factory(dict)

    def find(self, job: Job, batch: Batch) -> BatchEnd | None:
        """The end of the job's batch; None: it has not ended."""
        first = max(1, job.job_id - batch.place + 1)
        last = min(job.job_id + batch.size - batch.place, self._serial())
        at = max(first, self._next.pop(batch.batch_id, first))
        while at <= last and not self._is_awaited(JobId(at), job.job_id, batch.batch_id):
            at += 1
        if at <= last:
            self._next[batch.batch_id] = at
            return None
        counts = Counter(
            state.value
            for job_id in range(first, last + 1)
            if (state := self._jobs.queue.ended.get(JobId(job_id))) is not None
            and self._may_be_of(JobId(job_id), batch.batch_id)
        )
        return BatchEnd(batch.batch_id, dict(counts), job.received_at[0] if job.received_at else 0)

    def _is_awaited(self, job_id: JobId, ended: JobId, batch_id: str) -> bool:
        if job_id not in self._jobs.table:
            # a later one may be durable, and about to be shown; earlier ones were shown before
            return job_id > ended and os.path.lexists(self._paths.job_file(job_id))
        job = self._jobs.table.in_memory(job_id)
        return job is not None and job.next_index is not None and self._may_be_of(job_id, batch_id)

    def _may_be_of(self, job_id: JobId, batch_id: str) -> bool:
        job = self._jobs.table.in_memory(job_id)
        batch = None if job is None else batch_of(job)
        return job is None or (batch is not None and batch.batch_id == batch_id)
