"""Change jobs: cancel, priority, archive.

Source: luxid.md 2.4-2.6.
"""

import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from common.errors import Conflict, Denied, GantryError, InvalidRequest, NotFound, Unavailable
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES, Job, set_priority, to_seconds
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, EtcdRoom
from daemons.luxid.core.queue.entry import AT_REST, Phase
from daemons.luxid.core.queue.recovery import cancel_for
from daemons.luxid.core.queue.termchanges import Changer, change_words, changed_job, check_change, is_for_running
from daemons.luxid.core.rights import OwnerRight, Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobEvents, LiveJobs, Rewriting, timestamp
from daemons.luxid.processes.killing import Canceller
from daemons.luxid.processes.signals import signal_process
from daemons.luxid.submitters import Submitters
from protocol.luxi.jobs import (
    Archived,
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    CancelJobs,
    ChangeJobPriority,
    ChangeJobs,
    ChangeResult,
    PickupJob,
    TermsChange,
)
from protocol.peer import Peer

# number of files moved at once, so that a call that is out of time stops soon
_BATCH: Final = 100
_log: Final = get_log(__name__)


class JobHandlers:
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

    def _check_owned(self, job_id: JobId, peer: Peer, action: OwnerRight) -> None:
        """Raises: Denied: the job belongs to another user, and the peer is not an operator."""
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if viewer.sees_all:
            return
        # for archived jobs, too: processes that they left running can be killed
        job = self._jobs.table.get(job_id) or self._store.find_archived(job_id)
        if job is not None:
            viewer.check_owned(job, action)

    async def cancel_job(self, call: CancelJob, peer: Peer) -> ChangeResult:
        self._check_owned(call.job_id, peer, OwnerRight.CANCEL)
        _log.info("job.cancel_asked", job=call.job_id, kill=call.kill, **peer.named)
        return ChangeResult(*await self._canceller.cancel(call.job_id, kill=call.kill, caller=peer.caller))

    async def pickup_job(self, call: PickupJob, _: Peer) -> bool:
        raise Conflict(f"luxid starts job {call.job_id} by itself when it may run; 'gnt-job why' tells what holds it")

    async def change_job_priority(self, call: ChangeJobPriority, peer: Peer) -> ChangeResult:
        if call.priority not in SUBMIT_PRIORITIES.values():
            raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {call.priority}")
        self._check_owned(call.job_id, peer, OwnerRight.SET_PRIORITY)
        phase = self._jobs.phase(call.job_id)
        if phase in AT_REST:
            return await self._rewrite_priority(call, peer)
        if phase is None:
            return ChangeResult(False, f"job {call.job_id} is not in the queue, or has ended")
        return await self._tell_process(call, peer)

    async def _rewrite_priority(self, call: ChangeJobPriority, peer: Peer) -> ChangeResult:
        try:
            self._room.check()
            await self._rewriting.change(call.job_id, lambda job: set_priority(job, call.priority))
        except Unavailable as error:
            return ChangeResult(False, error.message)
        _log.info("job.priority", job=call.job_id, priority=call.priority, **peer.named)
        return ChangeResult(True, f"job {call.job_id} has priority {call.priority}")

    async def _tell_process(self, call: ChangeJobPriority, peer: Peer) -> ChangeResult:
        """Leave the number where the job process looks for it, and wake it (luxid.md 2.5)."""
        job = self._jobs.unended(call.job_id)
        told = self._jobs.processes.told_priorities
        try:
            told.tell(call.job_id, call.priority)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            return ChangeResult(False, f"job {call.job_id} cannot be sent its new priority: {reason}; try again")
        if not signal_process(job, signal.SIGUSR1):
            told.withdraw(call.job_id)
            return ChangeResult(
                False, f"job {call.job_id} is just being started, or its process has just ended; try again"
            )
        _log.info("job.priority", job=call.job_id, priority=call.priority, **peer.named)
        return ChangeResult(True, f"job {call.job_id} was notified of its new priority {call.priority}")

    async def archive_job(self, call: ArchiveJob, peer: Peer) -> bool:
        """Archive a final job; its process may still exist, because the final file is its last write."""
        self._check_owned(call.job_id, peer, OwnerRight.ARCHIVE)
        self._room.check()
        async with self._archiving:
            job = self._jobs.table.get(call.job_id)
            if job is None or job.next_index is not None:
                return False
            if not self._jobs.notices.is_notified(call.job_id):
                raise Conflict(
                    f"notifications for job {call.job_id} or its batch are still pending; "
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
        return _is_old(job, ended_before) and self._jobs.notices.is_notified(job.job_id)

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


# Change or cancel many jobs in one call.
#
# Theory. Those that have no process are taken out of the line together, before the first of them is written, so that
# none of them starts meanwhile in the place of another; their files share groups of writes. Each other one is treated
# as if it were alone.
#
# Source: DESIGN section 16; everyday.md j, "10,000-element cancel = one call".


# number of jobs with a process that are told at a time
_TOLD_AT_ONCE: Final = 50
# seconds until a start or a rewriting of a job is over
_SETTLED_S: Final = 10.0


Answers = dict[JobId, ChangeResult]


@attrs.frozen
class ManyJobsHandlers:
    """The methods for many jobs.

    Args: room: tells whether changes that can wait can be committed.
    """

    _jobs: LiveJobs
    _store: Store
    _rewriting: Rewriting
    _canceller: Canceller
    _single: JobHandlers
    _submitters: Submitters
    _room: EtcdRoom = BOUNDLESS

    async def cancel_jobs(self, call: CancelJobs, peer: Peer) -> tuple[ChangeResult, ...]:
        answers = await self._denied(call.job_ids, peer, OwnerRight.CANCEL)
        job_ids = [job_id for job_id in dict.fromkeys(call.job_ids) if job_id not in answers]
        _log.info("jobs.cancel_asked", count=len(job_ids), first=_first(job_ids), kill=call.kill, **peer.named)
        now, now_ns = timestamp(), time.time_ns()
        at_rest = self._at_rest(job_ids)
        others = [job_id for job_id in job_ids if self._jobs.phase(job_id) not in AT_REST]

        async def cancel(job_id: JobId) -> ChangeResult:
            return ChangeResult(*await self._canceller.cancel(job_id, kill=call.kill, caller=peer.caller))

        async with trio.open_nursery() as nursery:
            # it begins when those at rest have been taken out of the line
            nursery.start_soon(self._each, others, cancel, answers)
            changed = await self._rewriting.change_all(
                at_rest, lambda job: cancel_for(job, peer.caller, now, now_ns), pause_s=self._room.pause_s
            )
        for job_id, job in changed.items():
            answers[job_id] = _failed(job) or ChangeResult(True, f"job {job_id} was canceled")
        return tuple(answers[job_id] for job_id in call.job_ids)

    async def change_jobs(self, call: ChangeJobs, peer: Peer) -> tuple[ChangeResult, ...]:
        """Raises: InvalidRequest: no job can be changed so. Unavailable: etcd is full, or a file cannot be read."""
        check_change(call.change)
        self._room.check()
        if call.change.after:
            await in_thread(self._check_known, [each.job_id for each in call.change.after])
        submitter = await self._submitters.of(peer)
        by = Changer(submitter.name(self._submitters.host), _viewer(peer).sees_all)
        answers = await self._denied(call.job_ids, peer, OwnerRight.CHANGE)
        job_ids = [job_id for job_id in dict.fromkeys(call.job_ids) if job_id not in answers]
        _log.info("jobs.change_asked", count=len(job_ids), first=_first(job_ids), **_told(call.change), **peer.named)
        answers |= await self._change_at_rest(self._at_rest(job_ids), call.change, by)

        async def change(job_id: JobId) -> ChangeResult:
            return await self._change_other(job_id, call.change, by, peer)

        await self._each([job_id for job_id in job_ids if job_id not in answers], change, answers)
        return tuple(answers[job_id] for job_id in call.job_ids)

    async def _change_at_rest(self, job_ids: Sequence[JobId], change: TermsChange, by: Changer) -> Answers:
        now_ns = time.time_ns()
        before = {job_id: self._jobs.unended(job_id) for job_id in job_ids}
        changed = await self._rewriting.change_all(
            job_ids, lambda job: changed_job(job, change, by, now_ns), pause_s=self._room.pause_s
        )
        return {job_id: _failed(job) or _changed(before[job_id], job, change) for job_id, job in changed.items()}

    async def _change_other(self, job_id: JobId, change: TermsChange, by: Changer, peer: Peer) -> ChangeResult:
        with trio.move_on_after(_SETTLED_S):
            await self._settled(job_id)
        phase = self._jobs.phase(job_id)
        if phase in AT_REST:
            return (await self._change_at_rest([job_id], change, by))[job_id]
        if change.priority is not None and is_for_running(change):
            return await self._single.change_job_priority(ChangeJobPriority(job_id, change.priority), peer)
        if phase is None:
            return ChangeResult(False, self._ended(job_id))
        if phase not in (Phase.RUNNING, Phase.ORPHANED):
            return ChangeResult(False, f"job {job_id} is just being started or written; try again")
        return ChangeResult(
            False,
            f"job {job_id} has begun: only its priority can be changed now, or it can be canceled; all else of it can "
            "be changed while it waits in the queue",
        )

    async def _settled(self, job_id: JobId) -> None:
        """Wait until the job is neither just being started nor being rewritten."""
        with self._jobs.changes.listen(job_id) as broadcast:
            while self._jobs.phase(job_id) in (Phase.HELD, Phase.STARTING):
                await broadcast.wait()

    def _check_known(self, job_ids: Iterable[JobId]) -> None:
        """Raises: InvalidRequest: one is neither in the queue nor in the archive. Unavailable."""
        for job_id in job_ids:
            if (self._store.find_live(job_id) or self._store.find_archived(job_id)) is None:
                raise InvalidRequest(f"there is no job {job_id} to wait for, neither in the queue nor in the archive")

    def _ended(self, job_id: JobId) -> str:
        job = self._jobs.table.get(job_id)
        return f"job {job_id} is not in the queue" if job is None else f"job {job_id} has ended ({job.state.value})"

    def _at_rest(self, job_ids: Iterable[JobId]) -> list[JobId]:
        return [job_id for job_id in job_ids if self._jobs.phase(job_id) in AT_REST]

    async def _denied(self, job_ids: Sequence[JobId], peer: Peer, action: OwnerRight) -> Answers:
        """The jobs that are not the caller's to change; files are read in a thread, so that no other task waits."""
        viewer = _viewer(peer)
        if viewer.sees_all:
            return {}
        named = tuple(dict.fromkeys(job_ids))
        found = dict(zip(named, map(self._jobs.table.in_memory, named), strict=True))
        unread = [job_id for job_id, job in found.items() if job is None]
        refused = {job_id: _refusal(job, viewer, action) for job_id, job in found.items() if job is not None}
        refused |= await in_thread(self._refusals, unread, viewer, action)
        return {job_id: done for job_id, done in refused.items() if done is not None}

    def _refusals(
        self, job_ids: Iterable[JobId], viewer: Viewer, action: OwnerRight
    ) -> dict[JobId, ChangeResult | None]:
        """Of jobs that are not in memory; also of archived ones: processes that they left running can be killed."""
        refused: dict[JobId, ChangeResult | None] = {}
        for job_id in job_ids:
            try:
                job = self._store.find_live(job_id) or self._store.find_archived(job_id)
            except Unavailable as error:
                # nobody knows whose it is
                refused[job_id] = ChangeResult(False, error.message)
            else:
                refused[job_id] = None if job is None else _refusal(job, viewer, action)
        return refused

    async def _each(
        self, job_ids: Sequence[JobId], act: Callable[[JobId], Awaitable[ChangeResult]], answers: Answers
    ) -> None:
        """Act on these jobs, some at a time; what befalls one is told of that one only."""
        places = trio.Semaphore(_TOLD_AT_ONCE)

        async def run(job_id: JobId) -> None:
            async with places:
                try:
                    answers[job_id] = await act(job_id)
                except GantryError as error:
                    answers[job_id] = ChangeResult(False, error.message)

        async with trio.open_nursery() as nursery:
            for job_id in job_ids:
                nursery.start_soon(run, job_id)


def _refusal(job: Job, viewer: Viewer, action: OwnerRight) -> ChangeResult | None:
    try:
        viewer.check_owned(job, action)
    except Denied as error:
        return ChangeResult(False, error.message)
    return None


def _viewer(peer: Peer) -> Viewer:
    return Viewer(peer.uid, peer.role, peer.caller)


def _first(job_ids: Sequence[JobId]) -> JobId | None:
    return next(iter(job_ids), None)


def _told(change: TermsChange) -> dict[str, object]:
    """What is to change, as a field of a log line: no values, as those are the user's words."""
    unchanged = TermsChange()
    names = (field.name for field in attrs.fields(TermsChange))
    return {"change": ",".join(name for name in names if getattr(change, name) != getattr(unchanged, name))}


def _failed(job: Job | GantryError) -> ChangeResult | None:
    return ChangeResult(False, job.message) if isinstance(job, GantryError) else None


def _changed(before: Job, after: Job | GantryError, change: TermsChange) -> ChangeResult:
    assert isinstance(after, Job)
    return ChangeResult(True, change_words(before, after, change))
