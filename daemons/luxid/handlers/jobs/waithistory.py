"""Return what jobs waited for.

Source: DESIGN section 6, "Explain".
"""

import time

import attrs
import trio

from common.ids import JobId
from common.queue.jobs import Job, Timestamp, to_seconds
from common.queue.waithistory import Span, assemble
from common.system.inthread import in_thread
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.store import Store
from daemons.luxid.files.waitfiles import WaitFiles
from daemons.luxid.jobs.jobtable import JobTable
from protocol.luxi.why.waits import ReadJobWaits
from protocol.peer import Peer


@attrs.frozen
class JobWaits:
    """The method about the waits of jobs."""

    _table: JobTable
    _queue: JobQueue
    _store: Store
    _waits: WaitFiles

    async def read_job_waits(self, call: ReadJobWaits, _: Peer) -> tuple[tuple[Span, ...] | None, ...]:
        return tuple([await self._history(job_id) for job_id in call.job_ids])

    async def _history(self, job_id: JobId) -> tuple[Span, ...] | None:
        job = self._table.get(job_id)
        if job is None:
            job = await in_thread(self._store.find_archived, job_id)
        else:
            await trio.lowlevel.checkpoint()
        if job is None:
            return None
        return self._assembled(job)

    def _assembled(self, job: Job) -> tuple[Span, ...]:
        # no await in between: a span that leaves memory is in the file by then
        written = self._waits.read(job.job_id)
        current = self._queue.spans(job.job_id, time.time())
        ended_at = _seconds(job.end_at or job.received_at) if job.next_index is None else None
        return assemble(written, current, _seconds(job.received_at) or 0.0, ended_at)


def _seconds(stamp: Timestamp | None) -> float | None:
    return to_seconds(stamp) if stamp is not None else None
