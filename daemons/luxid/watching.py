"""The kernel's events about the queue's folders and the livelocks' folder, as calls.

The watches are made before the queue is read, so that nothing is missed in between.

Source: DESIGN sections 5 and 6; luxid.md 5.7.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from common.errors import DamagedFile, NotFound, Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job
from common.system.log import get_log
from common.system.watch import EventKind, FolderEvent, FolderWatch
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobEvents, LiveJobs

_PREFIX: Final = "job-"


@attrs.frozen
class FolderEvents:
    """The callbacks for events; called in the event loop, must not raise."""

    # called with the jobs whose files were replaced
    jobs_changed: Callable[[set[JobId]], None]
    # called with the jobs whose processes appended to their logs
    logs_grew: Callable[[set[JobId]], None]
    # called with the livelocks that an ended process had open, by their names within the folder
    livelocks_touched: Callable[[set[str]], None]
    # called when events were lost, and again and again while they cannot come: check everything
    overflow: Callable[[], None]


class QueueWatch:
    """The watches of luxid."""

    def __init__(self, paths: Paths) -> None:
        # every write of a job file is a rename (luxid.md 3)
        self._queue = FolderWatch(paths.queue, kinds=EventKind.MOVED_TO)
        self._logs = FolderWatch(paths.job_logs, kinds=EventKind.MODIFY)
        self._livelocks = FolderWatch(paths.livelocks, kinds=EventKind.CLOSE_WRITE | EventKind.DELETE)

    def close(self) -> None:
        self._queue.close()
        self._logs.close()
        self._livelocks.close()

    async def follow_jobs(self, tell: FolderEvents) -> None:
        """Report changed job files until cancelled."""
        while True:
            _tell_of_jobs(await self._queue.events(), tell)

    def tell_of_jobs(self, tell: FolderEvents) -> None:
        """Report the job files that have changed so far."""
        _tell_of_jobs(self._queue.take(), tell)

    async def follow_logs(self, tell: FolderEvents) -> None:
        """Report logs that grew until cancelled."""
        while True:
            events = await self._logs.events()
            tell.logs_grew({job_id for event in events if (job_id := _job_of(event.name)) is not None})
            _tell_of_loss(events, tell)

    async def follow_livelocks(self, tell: FolderEvents) -> None:
        """Report livelocks that may have been released, until cancelled."""
        while True:
            events = await self._livelocks.events()
            tell.livelocks_touched({event.name for event in events if event.name})
            _tell_of_loss(events, tell)


def _tell_of_jobs(events: list[FolderEvent], tell: FolderEvents) -> None:
    if changed := {job_id for event in events if (job_id := _job_of(event.name)) is not None}:
        tell.jobs_changed(changed)
    _tell_of_loss(events, tell)


def _job_of(name: str) -> JobId | None:
    number = name[len(_PREFIX) :]
    if not name.startswith(_PREFIX) or not number.isascii() or not number.isdigit():
        return None
    return JobId(int(number))


def _tell_of_loss(events: list[FolderEvent], tell: FolderEvents) -> None:
    if any(event.needs_rescan for event in events):
        tell.overflow()


# Files written by job processes, read back into the queue: their jobs' files and logs.
#
# A file is read when the kernel reports its replacement, by luxid, which knows it already, or by the process of the
# job. Repeated reading is harmless: known content changes nothing. Its place in the folder need not be durable when
# luxid sees it, and no client may learn what a loss of power can undo. So luxid syncs the folder once for all files
# read, passes them to the other nodes, and only then do they count.
#
# Others wait for the end of a job, and for the pid that an external executor writes. That an opcode has begun waits for
# other changes a little: most jobs are short, and their beginning and end then share a sync.
#
# A process writes its file whole at each step, so a job of thousands of opcodes makes thousands of large files. Reading
# one of them is followed by a rest, in which it is replaced unread: luxid gives to it a small part of its time.
#
# Source: DESIGN sections 3 and 6; luxid.md 5.7.


# seconds that a change waits for others, if nobody waits for it
TOGETHER_S: Final = 0.02
# a file is not read again for so many times the CPU time that its reading took; in seconds, shorter rests are none, and
# longer ones end then
_REST: Final = 19
_SHORTEST_REST_S: Final = 0.1
_LONGEST_REST_S: Final = 5.0
_log: Final = get_log(__name__)


class ChangedFiles:
    """Reads the files of jobs that have a process; start `run`.

    Args:
        nursery: runs the tasks that wait for unreadable files.
    """

    def __init__(self, jobs: LiveJobs, store: Store, events: JobEvents, nursery: trio.Nursery) -> None:
        self._jobs = jobs
        self._store = store
        self._events = events
        self._nursery = nursery
        # jobs whose files cannot be read yet
        self._awaited: set[JobId] = set()
        # jobs whose files were replaced
        self._told: set[JobId] = set()
        # what was read of them and is not taken in yet, with the livelock of the process that has written it
        self._read: dict[JobId, tuple[Job, str | None]] = {}
        # instants on trio's clock before which large files are not read again
        self._rests_until: dict[JobId, float] = {}
        self._has_news = trio.Event()
        # one at a time, so that changes count in the order of reading
        self._turn = trio.Lock()

    async def run(self) -> None:
        """Take in reported changes, until cancelled."""
        while True:
            # jobs that were told earlier, and rest, are due then
            due_at = min((self._rests_until.get(job_id, -math.inf) for job_id in self._told), default=math.inf)
            with trio.move_on_at(due_at):
                await self._has_news.wait()
            with trio.move_on_after(TOGETHER_S):
                while not self._read_told() and self._read:
                    await self._has_news.wait()
            if self._read:
                await self._take_in_read()

    async def take_in(self) -> None:
        """Return when all changes reported before this call are durable and known."""
        self._rests_until.clear()
        await self._take_in_read()

    async def _take_in_read(self) -> None:
        async with self._turn:
            self._read_told()
            read, self._read = self._read, {}
            try:
                await self._take_in([each for each in read.values() if self._is_current(*each)])
            except trio.Cancelled:
                self.replaced(read)
                raise

    def _read_told(self) -> bool:
        """Read the replaced files; return whether others wait for what was read."""
        now = trio.current_time()
        self._rests_until = {job_id: until for job_id, until in self._rests_until.items() if until > now}
        told, self._told = self._told - self._rests_until.keys(), self._told & self._rests_until.keys()
        if self._has_news.is_set():
            # otherwise `run` waits on this very event
            self._has_news = trio.Event()
        for job_id in told:
            began = time.thread_time()
            job = self._read_changed(job_id)
            rest_s = _REST * (time.thread_time() - began)
            if rest_s > _SHORTEST_REST_S:
                self._rests_until[job_id] = now + min(rest_s, _LONGEST_REST_S)
            if job is not None:
                self._read[job_id] = job, self._jobs.unended(job_id).livelock
                if job.next_index is None:
                    # the process ends meanwhile; this death needs no settling
                    self._jobs.processes.record(job_id).has_written_end = True
        return any(self._is_awaited(job) for job, _ in self._read.values())

    def _is_awaited(self, job: Job) -> bool:
        if job.next_index is None:
            return True
        return self._has_process(job.job_id) and job.process_id != self._jobs.unended(job.job_id).process_id

    async def _take_in(self, changed: Sequence[tuple[Job, str | None]]) -> None:
        if not changed:
            return
        has_results = any(job.next_index != self._jobs.unended(job.job_id).next_index for job, _ in changed)
        await self._store.files.take_up([job.job_id for job, _ in changed], has_results=has_results)
        for job, livelock in changed:
            if self._is_current(job, livelock):
                self._take(job)

    def _is_current(self, job: Job, livelock: str | None) -> bool:
        """Whether the process that has written this still counts: the job may have been found dead meanwhile, and even
        have another one."""
        return self._has_process(job.job_id) and self._jobs.unended(job.job_id).livelock == livelock

    def replaced(self, job_ids: Iterable[JobId]) -> None:
        """Report that the files of these jobs were replaced."""
        for job_id in job_ids:
            if self._has_process(job_id):
                self._told.add(job_id)
                self._has_news.set()

    def logs_grew(self, job_ids: Iterable[JobId]) -> None:
        """Report that job processes appended to their logs."""
        for job_id in job_ids:
            self._jobs.changes.notify(job_id)
            self._jobs.news.log_grew(job_id)
            if self._has_process(job_id) and _is_on_node(self._jobs.unended(job_id)):
                # it may say that the node is silent, or answers again, by which the job is shown as waiting
                self._jobs.news.tell_job(job_id, None)

    def look_at_all(self) -> None:
        """Report that anything may have changed."""
        running = self._jobs.queue.running()
        self.replaced(running)
        self.logs_grew(running)

    def _read_changed(self, job_id: JobId) -> Job | None:
        """Return the job from its file; None: it is unchanged, or has no process, or the file cannot be read now."""
        try:
            job = self._read_while_it_has_a_process(job_id)
        except Unavailable:
            if job_id not in self._awaited:
                self._awaited.add(job_id)
                self._nursery.start_soon(self._wait_for, job_id)
        except (NotFound, DamagedFile) as error:
            _tell_of_damage(job_id, error)
        else:
            return job if job is not None and job != self._jobs.unended(job_id) else None
        return None

    async def _wait_for(self, job_id: JobId) -> None:
        """Wait until an unreadable file can be read: the event that reported it does not come again."""
        try:
            await self._jobs.unread.until_read(job_id, self._read_while_it_has_a_process)
        except (NotFound, DamagedFile) as error:
            _tell_of_damage(job_id, error)
        else:
            self.replaced([job_id])
        finally:
            self._awaited.discard(job_id)

    def _read_while_it_has_a_process(self, job_id: JobId) -> Job | None:
        return self._store.read_job(job_id) if self._has_process(job_id) else None

    def _take(self, job: Job) -> None:
        if job.next_index is None:
            self._events.ended(job)
        else:
            self._events.advanced(job)

    def _has_process(self, job_id: JobId) -> bool:
        return self._jobs.phase(job_id) is Phase.RUNNING


def _is_on_node(job: Job) -> bool:
    index = job.next_index
    return index is not None and bool(job.ops[index].input.get("node"))


def _tell_of_damage(job_id: JobId, error: Exception) -> None:
    effect = "the job's process writes it anew; if it ends before, the job is ended"
    _log.warning("job.damaged", job=job_id, reason=error, effect=effect)
