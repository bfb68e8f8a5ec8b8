"""luxid's own changes to the files of jobs without a process.

While a job has a process, its file belongs to that process; before and after it belongs to luxid. The job is held while
luxid writes it, so that it cannot be started.

One event may end a mass of jobs: a rule that rejects all waiting ones, or a job on which all depend. Only a few of them
are written at a time; the others wait here, where each costs little, and do not delay single writes of other callers.

Source: DESIGN section 3, invariant 2.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.queue.jobs import Job, Timestamp, to_timestamp
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Doomed, Rejected
from daemons.luxid.core.queue.recovery import cancel_dependent, cancel_rejected, cancel_stopped, fail_dependent
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobevents import JobEvents
from daemons.luxid.jobs.livejobs import LiveJobs

# number of jobs of a mass whose ends are written at a time
ENDS_AT_ONCE: Final = 50
# number of jobs that one caller changes at a time: as many as share a write
CHANGES_AT_ONCE: Final = 250
_WRITE_RETRY_S: Final = 1.0
_log: Final = get_log(__name__)


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
                await trio.lowlevel.checkpoint()
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
