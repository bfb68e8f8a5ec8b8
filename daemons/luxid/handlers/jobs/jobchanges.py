"""Change jobs: cancel, priority, archive.

Source: luxid.md 2.4-2.6.
"""

import signal
import time
from typing import Final

import trio

from common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES, Job, set_priority, to_seconds
from common.system.log import get_log
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, EtcdRoom
from daemons.luxid.core.queue.decisions import AT_REST
from daemons.luxid.core.queue.privacy import Deed, Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobevents import JobEvents
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Rewriting
from daemons.luxid.processes.cancelling import Canceller
from daemons.luxid.processes.signals import signal_process
from protocol.luxi.jobs import Archived, ArchiveJob, AutoArchiveJobs, CancelJob, ChangeJobPriority, Done, PickupJob
from protocol.peer import Peer

# number of files moved at once, so that a call that is out of time stops soon
_BATCH: Final = 100
_log: Final = get_log(__name__)


class Jobs:
    """The methods that change jobs. Args: room: tells whether changes that can wait can be committed."""

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        rewriting: Rewriting,
        events: JobEvents,
        canceller: Canceller,
        room: EtcdRoom = BOUNDLESS,
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._rewriting = rewriting
        self._events = events
        self._canceller = canceller
        self._room = room
        # one at a time: two calls must not move the same file
        self._archiving = trio.Lock()

    def _check_owned(self, job_id: JobId, peer: Peer, deed: Deed) -> None:
        """Raises: Denied: the job belongs to another user, and the peer is not an operator."""
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if viewer.sees_all:
            return
        # for archived jobs, too: processes that they left running can be killed
        job = self._jobs.table.get(job_id) or self._store.find_archived(job_id)
        if job is not None:
            viewer.check_owned(job, deed)

    async def cancel_job(self, call: CancelJob, peer: Peer) -> Done:
        self._check_owned(call.job_id, peer, Deed.CANCEL)
        _log.info("job.cancel_asked", job=call.job_id, kill=call.kill, **peer.named)
        return Done(*await self._canceller.cancel(call.job_id, kill=call.kill, caller=peer.caller))

    async def pickup_job(self, call: PickupJob, _: Peer) -> bool:
        raise Conflict(f"luxid starts job {call.job_id} by itself when it may run; 'gnt-job why' tells what holds it")

    async def change_job_priority(self, call: ChangeJobPriority, peer: Peer) -> Done:
        if call.priority not in SUBMIT_PRIORITIES.values():
            raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {call.priority}")
        self._check_owned(call.job_id, peer, Deed.SET_PRIORITY)
        phase = self._jobs.phase(call.job_id)
        if phase in AT_REST:
            return await self._rewrite_priority(call, peer)
        if phase is None:
            return Done(False, f"job {call.job_id} is not in the queue, or has ended")
        return await self._tell_process(call, peer)

    async def _rewrite_priority(self, call: ChangeJobPriority, peer: Peer) -> Done:
        try:
            self._room.check()
            await self._rewriting.change(call.job_id, lambda job: set_priority(job, call.priority))
        except Unavailable as error:
            return Done(False, error.message)
        _log.info("job.priority", job=call.job_id, priority=call.priority, **peer.named)
        return Done(True, f"job {call.job_id} has priority {call.priority}")

    async def _tell_process(self, call: ChangeJobPriority, peer: Peer) -> Done:
        """Leave the number where the job process looks for it, and wake it (luxid.md 2.5)."""
        job = self._jobs.unended(call.job_id)
        told = self._jobs.processes.told_priorities
        try:
            told.tell(call.job_id, call.priority)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            return Done(False, f"job {call.job_id} cannot be told its new priority: {reason}; try again")
        if not signal_process(job, signal.SIGUSR1):
            told.withdraw(call.job_id)
            return Done(False, f"job {call.job_id} is just being started, or its process has just ended; try again")
        _log.info("job.priority", job=call.job_id, priority=call.priority, **peer.named)
        return Done(True, f"job {call.job_id} was told its new priority {call.priority}")

    async def archive_job(self, call: ArchiveJob, peer: Peer) -> bool:
        """Archive a final job; its process may still exist, because the final file is its last write."""
        self._check_owned(call.job_id, peer, Deed.ARCHIVE)
        self._room.check()
        async with self._archiving:
            job = self._jobs.table.get(call.job_id)
            if job is None or job.next_index is not None:
                return False
            if not self._jobs.untold.is_told(call.job_id):
                raise Conflict(
                    f"those who are to be told of the end of job {call.job_id}, or of its batch, are not told yet; "
                    "try again when its batch has ended"
                )
            if await self._archive([call.job_id]):
                path = self._store.paths.job_file(call.job_id)
                raise NotFound(
                    f"the file of job {call.job_id} is not there any more: somebody removed '{path}'; "
                    "there is nothing to archive, and the job is forgotten"
                )
        _log.info("job.archived", job=call.job_id, **peer.named)
        return True

    async def auto_archive_jobs(self, call: AutoArchiveJobs, peer: Peer) -> Archived:
        deadline = trio.current_time() + call.timeout
        ended_before = time.time() - call.age if call.age >= 0 else None
        archived = looked_at = 0
        async with self._archiving:
            job_ids = self._jobs.table.ids()
            while looked_at < len(job_ids) and trio.current_time() < deadline:
                self._room.check()
                batch = job_ids[looked_at : looked_at + _BATCH]
                jobs = await self._jobs.table.get_many(batch, is_lenient=True)
                old = [job.job_id for job in jobs if job is not None and self._is_old(job, ended_before)]
                if pause_s := self._room.pause_s(len(old)):
                    await trio.sleep(pause_s)
                missing = await self._archive(old)
                looked_at += len(batch)
                archived += len(old) - len(missing)
        _log.info("jobs.archived", count=archived, age_s=call.age, **peer.named)
        return Archived(archived, len(job_ids) - looked_at)

    async def archive_ended(self, job_ids: list[JobId]) -> int:
        """Archive those of these jobs that are live and have ended; return how many. Raises: Unavailable."""
        async with self._archiving:
            self._room.check()
            jobs = await self._jobs.table.get_many(job_ids, is_lenient=True)
            ended = [job.job_id for job in jobs if job is not None and self._is_old(job, None)]
            return len(ended) - len(await self._archive(ended))

    def _is_old(self, job: Job, ended_before: float | None) -> bool:
        """Whether the job may be archived: it ended before, and nobody is still to be told of it."""
        return _is_old(job, ended_before) and self._jobs.untold.is_told(job.job_id)

    async def _archive(self, job_ids: list[JobId]) -> list[JobId]:
        """Archive these jobs; forget and return those whose files were removed by others.

        Raises: Unavailable: the disk refused; the jobs moved so far are recorded as archived.
        """
        if not job_ids:
            return []
        store, done = self._store, list[JobId]()
        try:
            absent = await store.archive(job_ids)
            done = job_ids
        except Unavailable:
            done = [job_id for job_id in job_ids if store.is_archived(job_id)]
            raise
        finally:
            self._events.archived(done)
        missing = [job_id for job_id in absent if not store.is_archived(job_id)]
        for job_id in missing:
            _log.warning("job.file_missing", job=job_id, effect="forgotten; somebody removed its file")
        return missing


def _is_old(job: Job, ended_before: float | None) -> bool:
    """Args: ended_before: seconds since the epoch; None: at any time."""
    if job.next_index is not None:
        return False
    at = job.end_at or job.start_at
    if ended_before is None or at is None:
        return ended_before is None
    return to_seconds(at) < ended_before
