"""The live jobs in memory, their events, and the changes that luxid itself makes to their files."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import attrs
import trio

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.queue.jobs import Job, JobState, LogEntry, Timestamp, to_timestamp
from common.queue.sidefiles import SilenceNote
from common.system.inthread import give_way, in_thread
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.broadcasts import Broadcasts
from daemons.luxid.core.query.jobs import JobView
from daemons.luxid.core.query.wordindex import WordIndex
from daemons.luxid.core.queue.entry import Doomed, Phase, Rejected
from daemons.luxid.core.queue.jobcounts import JobCounts
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.recovery import (
    NodeWork,
    RecoveryRequest,
    cancel_dependent,
    cancel_rejected,
    cancel_stopped,
    fail_dependent,
    node_work,
)
from daemons.luxid.core.rights import Viewer, public_job
from daemons.luxid.files.store import JobLogs, Store
from daemons.luxid.outboxes import FeedNews, HistoryOutbox, NoticeOutbox
from daemons.luxid.processes.jobprocesses import JobProcesses

# Job files that cannot be read at the moment: their jobs are held, the log says so, and reading is tried again.
#
# Theory. A reading error (no descriptors, no memory, a faulty disk) says nothing about a job. A caller that needs
# the content waits here until it could be read, with pauses that double: no event reports the end of an error.
# A missing or damaged file is a result, and decides.
#
# Source: DESIGN section 11, "an error of the disk or of descriptors".


T = TypeVar("T")
_log: Final = get_log(__name__)


class UnreadFiles:
    """Waits for files to become readable, and knows those that are not."""

    def __init__(self) -> None:
        # job -> reason, while its file is waited for
        self._reasons: dict[JobId, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, job_id: JobId) -> str | None:
        """The reason why the job's file cannot be read; None: it is not waited for."""
        return self._reasons.get(job_id)

    async def until_read(self, job_id: JobId, read: Callable[[JobId], T]) -> T:
        """Return the result of `read`, as soon as it no longer raises Unavailable.

        Raises: all other exceptions of `read`.
        Cancellation: the attempt leaves no trace.
        """
        try:
            for pause_s in retry_pauses():
                try:
                    return read(job_id)
                except Unavailable as error:
                    self._reasons[job_id] = error.message
                    effect = "the job is held until it can be read"
                    _log.error("job.unreadable", job=job_id, reason=error, effect=effect, retry_s=pause_s)
                await trio.sleep(pause_s)
        finally:
            self._reasons.pop(job_id, None)
        raise AssertionError("pauses never end")


# The live jobs as luxid last saw them.
#
# All unfinished jobs are kept in memory; of ended ones only the latest without a long log. The
# others are read from disk on request. So memory does not grow with finished work.


FINAL_KEPT: Final = 10_000
LONG_LOG: Final = 50
_READ_AT_ONCE: Final = 200


class JobTable:
    """Live jobs by id.

    Args:
        read: reads a live job's file; None: it does not exist; raises Unavailable: it cannot be read at the moment.
    """

    def __init__(self, read: Callable[[JobId], Job | None]) -> None:
        self._read = read
        # None: final, only on disk
        self._jobs: dict[JobId, Job | None] = {}
        # final jobs in memory, oldest first; may contain ids that are gone
        self._kept: deque[JobId] = deque()
        # words of the jobs that have not ended
        self.words = WordIndex()

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def ids(self) -> list[JobId]:
        """All live jobs, ascending."""
        return sorted(self._jobs)

    def put(self, job: Job) -> None:
        """Record a new or changed job, as its file has it."""
        self.words.changed(job.job_id)
        if job.next_index is not None:
            self._jobs[job.job_id] = job
        elif sum(len(op.log) for op in job.ops) > LONG_LOG:
            self._jobs[job.job_id] = None
        else:
            self._jobs[job.job_id] = job
            self._keep(job.job_id)

    def drop(self, job_id: JobId) -> None:
        """Forget a job that is no longer live."""
        self.words.changed(job_id)
        self._jobs.pop(job_id, None)

    def get(self, job_id: JobId) -> Job | None:
        """Return the job, from disk if necessary; None: it is not live.

        Raises: Unavailable: its file cannot be read at the moment; only for an ended job.
        """
        if job_id not in self._jobs:
            return None
        return self._jobs[job_id] or self._read(job_id)

    def in_memory(self, job_id: JobId) -> Job | None:
        """Return the job without reading its file; an unfinished one is always in memory."""
        return self._jobs.get(job_id)

    def is_unended(self, job_id: JobId) -> bool:
        """Whether the job is there, and has not ended."""
        job = self._jobs.get(job_id)
        return job is not None and job.next_index is not None

    def unended(self, job_id: JobId) -> Job:
        """Return a live, unfinished job, which is always in memory."""
        job = self._jobs[job_id]
        assert job is not None
        return job

    async def get_many(self, job_ids: Sequence[JobId], *, is_lenient: bool = False) -> list[Job | None]:
        """`get` for many jobs, in their order; files are read in a thread, so that no other task waits.

        Args:
            is_lenient: return None for a job whose file cannot be read, with a log line.
        Raises: Unavailable: as `get`, unless it is lenient.
        """
        read = self._read_leniently if is_lenient else self._read
        found = [self._jobs.get(job_id) for job_id in job_ids]
        on_disk = [place for place, job in enumerate(found) if job is None and job_ids[place] in self._jobs]
        for start in range(0, len(on_disk), _READ_AT_ONCE):
            places = on_disk[start : start + _READ_AT_ONCE]
            jobs = await in_thread(lambda ids: list(map(read, ids)), [job_ids[place] for place in places])
            for place, job in zip(places, jobs, strict=True):
                found[place] = job
        return found

    def _read_leniently(self, job_id: JobId) -> Job | None:
        try:
            return self._read(job_id)
        except Unavailable as error:
            _log.warning("job.unreadable", job=job_id, reason=error, effect="passed over")
            return None

    def _keep(self, job_id: JobId) -> None:
        self._kept.append(job_id)
        if len(self._kept) > FINAL_KEPT:
            oldest = self._kept.popleft()
            job = self._jobs.get(oldest)
            if job is not None and job.next_index is None:
                self._jobs[oldest] = None


# Events of jobs, reported by the parts that cause them.
#
# Source: DESIGN section 6.


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


# The live jobs in memory: their files' content, the core's state of them, their processes, their listeners.
#
# Source: DESIGN section 6.


# obstacle to starts and submissions
MAKING_WAY: Final = "the mastership is being moved to another node"


@attrs.frozen
class LiveJobs:
    """The parts that know live jobs. Only the scheduler reports events to them; all others read."""

    queue: JobQueue
    table: JobTable
    processes: JobProcesses
    # a notice at every change of a job
    changes: Broadcasts[JobId] = attrs.Factory(Broadcasts)
    # all changes, for luxid's feed
    news: FeedNews = attrs.Factory(FeedNews)
    # jobs that have ended, for the history
    endings: HistoryOutbox = attrs.Factory(HistoryOutbox)
    # events of jobs, for those who are to be told of them
    notices: NoticeOutbox = attrs.Factory(NoticeOutbox)
    # job files that cannot be read at the moment
    unread: UnreadFiles = attrs.Factory(UnreadFiles)
    # reasons why no job is started at the moment
    obstacles: set[str] = attrs.Factory(set)
    # numbers for graphs
    counts: JobCounts = attrs.Factory(JobCounts)
    # whether commands run on nodes, where they outlive the processes of their jobs
    takes_up: bool = False

    def phase(self, job_id: JobId) -> Phase | None:
        """The job's phase; None: it is not live, or has ended."""
        return self.queue.phase(job_id)

    def work_left(self, job: Job) -> NodeWork | None:
        """The command of a job without a process that a new process is to take up."""
        return node_work(job) if self.takes_up else None

    def unended(self, job_id: JobId) -> Job:
        """A live job that has not ended."""
        return self.table.unended(job_id)


# Jobs as shown to users: the content of their files, and what is known beyond it.
#
# A blocked job is shown as waiting, and so is one whose command is to begin on a node that does not answer; a job being
# killed as canceling; and the log of a running one has the lines that its file does not have yet.
#
# Source: DESIGN section 11, "waiting for dependencies"; luxid.md 8.


_RUNNING: Final = (Phase.RUNNING, Phase.ORPHANED)


class JobViews:
    """The visible state of live jobs."""

    def __init__(self, jobs: LiveJobs, logs: JobLogs, silence_note: Callable[[int], Path]) -> None:
        """Args: silence_note: the place of a job's note that its node is silent (`common.queue.sidefiles`)."""
        self._jobs = jobs
        self._logs = logs
        self._silence_note = silence_note

    def of(self, job: Job) -> JobView:
        entry = self._jobs.queue.entry(job.job_id)
        phase = entry.phase if entry is not None else None
        summary = entry.summary if entry is not None and entry.job is job else None
        is_running = phase in _RUNNING
        complete = self._logs.complete if is_running else None
        is_ending = is_running and self._jobs.processes.ask(job.job_id) is RecoveryRequest.KILL
        return JobView(
            job,
            is_blocked=phase is Phase.BLOCKED,
            is_silent=is_running and not is_ending and self._waits_for_node(job),
            is_ending=is_ending,
            summary=summary,
            complete=complete,
        )

    def _waits_for_node(self, job: Job) -> bool:
        """Whether its process has noted that the command has not begun, as its node does not answer."""
        index = job.next_index
        if index is None or job.livelock is None or not job.ops[index].input.get("node"):
            return False
        try:
            silent = SilenceNote(self._silence_note(job.job_id), job.livelock).read()
        except OSError:
            # `why` tells of it
            return False
        return silent is not None and not silent.may_run

    @staticmethod
    def seen_by(viewer: Viewer, view: JobView) -> JobView:
        """The part of the view that this user may see."""
        return view if viewer.may_see(view.job) else _public(view)

    def state(self, job_id: JobId) -> JobState | None:
        """The state of a live job as shown."""
        job = self._jobs.table.get(job_id)
        return self.of(job).state if job is not None else None

    def newer_log(self, job: Job, serial: float) -> list[LogEntry]:
        """The log lines after this serial that the given job does not have yet."""
        return self._logs.newer(job, serial) if self._jobs.queue.phase(job.job_id) in _RUNNING else []


def _public(view: JobView) -> JobView:
    return attrs.evolve(view, job=public_job(view.job), summary=None, complete=None)


# luxid's own changes to the files of jobs without a process.
#
# While a job has a process, its file belongs to that process; before and after it belongs to luxid. The job is held
# while luxid writes it, so that it cannot be started.
#
# One event may end a mass of jobs: a rule that rejects all waiting ones, or a job on which all depend. Only a few of
# them are written at a time; the others wait here, where each costs little, and do not delay single writes of other
# callers.
#
# Source: DESIGN section 3, invariant 2.


# number of jobs of a mass whose ends are written at a time
ENDS_AT_ONCE: Final = 50
# number of jobs that one caller changes at a time: as many as share a write
CHANGES_AT_ONCE: Final = 250
_WRITE_RETRY_S: Final = 1.0


class Ends:
    """Held jobs that are to be ended: the scheduler puts them here, `Rewriting` takes them."""

    def __init__(self) -> None:
        self._doomed: deque[Doomed] = deque()
        self._rejected: deque[Rejected] = deque()
        self._has_some = trio.Event()

    def put(self, doomed: Iterable[Doomed], rejected: Iterable[Rejected]) -> None:
        """End these jobs soon; first those that cannot start because of another job."""
        self._doomed += doomed
        self._rejected += rejected
        if self._doomed or self._rejected:
            self._has_some.set()

    async def wait(self) -> None:
        """Wait until there is one."""
        await self._has_some.wait()

    def take(self) -> Doomed | Rejected:
        """Return the next one; there must be one."""
        end = self._doomed.popleft() if self._doomed else self._rejected.popleft()
        if not self._doomed and not self._rejected:
            self._has_some = trio.Event()
        return end


class Rewriting:
    """Writes jobs without a process, and reports the results."""

    def __init__(self, store: Store, jobs: LiveJobs, ends: Ends, events: JobEvents) -> None:
        self._store = store
        self._jobs = jobs
        self._ends = ends
        self._events = events

    async def run(self) -> None:
        """End the jobs in `Ends`, until cancelled."""
        places = trio.Semaphore(ENDS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            while True:
                await self._ends.wait()
                await places.acquire()
                nursery.start_soon(self._end_next, self._ends.take(), places)

    async def finish(self, job: Job) -> None:
        """Write the end of a held job, and report it; tries until the disk takes it."""
        await self.keep(job)
        self._events.ended(job)

    async def put_back(self, job: Job) -> None:
        """Write a held job that waits for its turn again, and report it; tries until the disk takes it."""
        await self.keep(job)
        self._events.requeue(job)

    async def keep(self, job: Job) -> None:
        """Write a job that nobody else writes, and report nothing; tries until the disk takes it."""
        while True:
            try:
                await self._store.save(job)
                return
            except Unavailable as error:
                _log.error("job.end_not_written", job=job.job_id, reason=error, retry_s=_WRITE_RETRY_S)
            await trio.sleep(_WRITE_RETRY_S)

    async def set_aside(self, job_id: JobId) -> None:
        """Move the damaged file of a held job away; tries until the disk takes it."""
        while True:
            try:
                await self._store.set_damaged_aside(job_id)
                return
            except Unavailable as error:
                _log.error("job.not_set_aside", job=job_id, reason=error, retry_s=_WRITE_RETRY_S)
            await trio.sleep(_WRITE_RETRY_S)

    async def change(self, job_id: JobId, change: Callable[[Job], Job]) -> Job:
        """Change the file of a job at rest, which cannot be started meanwhile.

        Raises: Unavailable: the disk refused; the job is unchanged.
        Durability: on return the change is on disk; the job may be final now.
        """
        job = self._jobs.unended(job_id)
        self._jobs.queue.hold(job_id)
        return await self._write_changed(job, change)

    async def change_all(
        self,
        job_ids: Sequence[JobId],
        change: Callable[[Job], Job],
        *,
        pause_s: Callable[[int], float] = lambda count: 0.0,
    ) -> dict[JobId, Job | GantryError]:
        """Change the files of jobs at rest, of which none can be started before its change; in few groups of writes.

        Args: pause_s: seconds to wait before so many are written, so that those who copy them can keep up.
        Returns: each job as it is now, or why it is unchanged: what `change` raises, or the disk refused.
        Cancellation: what is begun is finished, and the others are left as they are.
        Durability: as `change`.
        """
        left = deque(self._jobs.unended(job_id) for job_id in job_ids)
        for job in left:
            self._jobs.queue.hold(job.job_id)
        found: dict[JobId, Job | GantryError] = {}
        try:
            while left:
                count = min(len(left), CHANGES_AT_ONCE)
                if seconds := pause_s(count):
                    await trio.sleep(seconds)
                group = [left.popleft() for _ in range(count)]
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as nursery:
                        for job in group:
                            nursery.start_soon(self._change_one, job, change, found)
                await give_way()
        finally:
            for job in left:
                self._events.requeue(job)
        return found

    async def _change_one(self, job: Job, change: Callable[[Job], Job], found: dict[JobId, Job | GantryError]) -> None:
        try:
            found[job.job_id] = await self._write_changed(job, change)
        except GantryError as error:
            found[job.job_id] = error

    async def _write_changed(self, job: Job, change: Callable[[Job], Job]) -> Job:
        """Write a held job as it is to be, and report it. Raises: as `change`, and what that raises."""
        try:
            changed = change(job)
            if changed is not job:
                with trio.CancelScope(shield=True):
                    await self._store.save(changed)
        except BaseException:
            self._events.requeue(job)
            raise
        if changed.next_index is None:
            self._events.ended(changed)
        else:
            self._events.requeue(changed)
        return changed

    async def _end_next(self, end: Doomed | Rejected, places: trio.Semaphore) -> None:
        try:
            await (self._end_doomed(end) if isinstance(end, Doomed) else self._end_rejected(end))
        finally:
            places.release()

    async def _end_rejected(self, rejected: Rejected) -> None:
        """Cancel a held job because of a rule."""
        job, uuid = self._jobs.unended(rejected.job_id), rejected.rule.uuid
        _log.info("job.rejected", job=job.job_id, rule=uuid)
        await self.finish(cancel_rejected(job, uuid, timestamp(), time.time_ns()))
        self._jobs.queue.loads.rejections.count(uuid)

    async def _end_doomed(self, doomed: Doomed) -> None:
        """End a held job because of a job that it depends on, or because its batch stops."""
        job = self._jobs.unended(doomed.job_id)
        event = "job.batch_stopped" if doomed.by_batch else "job.dependency_failed"
        _log.info(event, job=job.job_id, reason=doomed.reason)
        now = timestamp()
        if doomed.by_batch:
            await self.finish(cancel_stopped(job, doomed.reason, now, time.time_ns()))
        elif doomed.is_canceled:
            await self.finish(cancel_dependent(job, doomed.reason, now, time.time_ns()))
        else:
            await self.finish(fail_dependent(job, doomed.reason, now))


def timestamp() -> Timestamp:
    """The present instant in the form of job files."""
    return to_timestamp(time.time())
