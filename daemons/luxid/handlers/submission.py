"""Taking jobs in.

Source: luxid.md 2.2, 2.3, 2.7.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from common.errors import Denied, InvalidRequest, JobQueueFull, QueueDrained
from common.jobs import Job, to_timestamp
from common.locks import JobId
from common.log import get_log
from common.settings import LuxidSettings
from daemons.luxid.core.submission import build_jobs, parse_jobs
from daemons.luxid.scheduler import Scheduler
from protocol.luxi import JobInput, SubmitJob, SubmitJobToDrainedQueue, SubmitManyJobs
from protocol.peer import Access, Peer

_log: Final = get_log(__name__)


class Submission:
    """The methods that take jobs."""

    def __init__(self, scheduler: Scheduler, settings: LuxidSettings) -> None:
        self._scheduler = scheduler
        self._store = scheduler.store
        self._limit = settings.max_queued_jobs
        # jobs that are being written
        self._arriving = 0

    async def submit_job(self, call: SubmitJob, peer: Peer) -> JobId:
        self._check_drained()
        return (await self._submit([call.job], peer))[0].job_id

    async def submit_job_to_drained_queue(self, call: SubmitJobToDrainedQueue, peer: Peer) -> JobId:
        if not Access().allows(peer):
            raise Denied("only root and the daemon's own user may submit to a drained queue")
        return (await self._submit([call.job], peer))[0].job_id

    async def submit_many_jobs(self, call: SubmitManyJobs, peer: Peer) -> list[list[Any]]:
        self._check_drained()
        if not call.jobs:
            return []
        return [[True, job.job_id] for job in await self._submit(call.jobs, peer)]

    async def _submit(self, inputs: Sequence[JobInput], peer: Peer) -> Sequence[Job]:
        parsed = parse_jobs(inputs)
        self._check_room(len(parsed))
        now_ns = time.time_ns()
        received = (to_timestamp(now_ns / 1e9), now_ns)
        # no await from the look at the serial until `add_jobs` has spent the ids
        jobs = build_jobs(parsed, JobId(self._store.serial + 1), received, self._exists)
        self._arriving += len(jobs)
        try:
            await self._store.add_jobs(jobs)
        except TypeError as error:
            raise InvalidRequest(f"an opcode cannot be written as JSON: {error}") from error
        finally:
            self._arriving -= len(jobs)
        for job in jobs:
            _log.info("job.queued", job=job.job_id, opcodes=len(job.ops), uid=peer.uid, client_pid=peer.pid)
        self._scheduler.add(jobs)
        return jobs

    def _check_drained(self) -> None:
        if self._store.is_drained:
            raise QueueDrained

    def _check_room(self, count: int) -> None:
        queued = self._scheduler.queue.counts().waiting_to_start + self._arriving
        if queued + count > self._limit:
            raise JobQueueFull(
                f"the queue holds {queued} of at most {self._limit} jobs, {count} more do not fit; "
                "wait until some have started, or raise max_queued_jobs in '[luxid]'"
            )

    def _exists(self, job_id: JobId) -> bool:
        return job_id in self._scheduler.table or self._store.is_archived(job_id)
