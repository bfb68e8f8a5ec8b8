"""Dead job processes: how they are found, and what becomes of their jobs.

The livelocks' folder reports a death (the kernel closes a dead process's files), and so does the fork
server; a report is never believed, only probed. A sweep is the backstop: each death that it finds
first is a missed event, and is counted.

Source: DESIGN sections 3 (invariants 2 and 5) and 5; luxid.md 5.8.
"""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import trio

from common.commands.output import stream_end
from common.errors import DamagedFile, GantryError, NotFound
from common.ids import JobId
from common.queue.jobs import Job, set_priority
from common.queue.sidefiles import asked_by
from common.system.deathprobe import dead_of, is_found_dead
from common.system.inthread import in_thread
from common.system.livelock import PROBE_AGAIN_AFTER_S, is_alive, livelocks_of_jobs
from common.system.log import get_log
from daemons.luxid.core.queue.entry import AT_REST, Phase
from daemons.luxid.core.queue.recovery import (
    DEATH_SOURCE,
    LONG_LIFE_S,
    Circumstances,
    after_death,
    after_lost_try,
    fail_job,
    is_rerunnable,
)
from daemons.luxid.core.resources import uses_of
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobEvents, LiveJobs, Rewriting, timestamp
from daemons.luxid.processes.jobprocesses import JobProcess
from daemons.luxid.processes.starting import Attempts

_log: Final = get_log(__name__)


class JobProcessDeaths:
    """Finds dead job processes and settles their jobs.

    Args:
        locks_claimed: no job with a command on a node is settled before; None: there are none to be claimed.
    """

    def __init__(
        self,
        jobs: LiveJobs,
        store: Store,
        rewriting: Rewriting,
        attempts: Attempts,
        events: JobEvents,
        nursery: trio.Nursery,
        locks_claimed: trio.Event | None = None,
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._rewriting = rewriting
        self._attempts = attempts
        self._events = events
        self._nursery = nursery
        self._locks_claimed = locks_claimed

    def recover(self) -> None:
        """Give the jobs what processes had not heard of that ended without a luxid; call it before any is started."""
        told = self._jobs.processes.told_priorities
        for job_id in told.jobs:
            phase = self._jobs.phase(job_id)
            if phase is None:
                told.withdraw(job_id)
            elif phase in AT_REST:
                self._jobs.queue.hold(job_id)
                self._nursery.start_soon(self._put_back, self._jobs.unended(job_id))

    async def run(self) -> None:
        """Probe the processes that are suspected to be dead, until cancelled."""
        while True:
            for job_id in await self._jobs.processes.suspects():
                self._look_at(job_id)

    def _look_at(self, job_id: JobId) -> None:
        if self._jobs.phase(job_id) is not Phase.RUNNING:
            return
        record = self._jobs.processes.record(job_id)
        if record.has_written_end:
            return
        record.is_suspected_again = record.is_probed
        if not record.is_probed:
            record.is_probed = True
            self._nursery.start_soon(self._probe, self._jobs.unended(job_id), record)

    def suspect_all(self) -> None:
        for job_id in self._jobs.queue.running():
            self._jobs.processes.suspect(job_id)

    async def sweep(self, every_s: float) -> None:
        """Check all running jobs at intervals, until cancelled."""
        while True:
            await trio.sleep(every_s)
            running = self._running_jobs()
            without = set(await dead_of(job.livelock for job in running if job.livelock is not None))
            dead = [job for job in running if job.livelock is None or job.livelock in without]
            if not dead:
                continue
            # a recent report is being handled already
            await trio.sleep(sum(PROBE_AGAIN_AFTER_S))
            for job in dead:
                if self._is_current(job) and not self._jobs.processes.record(job.job_id).is_probed:
                    self._jobs.counts.swept += 1
                    _log.warning("sweep.found_dead", job=job.job_id, effect="handled now; no event told of it")
                    self._nursery.start_soon(self.settle, job)

    async def settle(self, job: Job, *, may_rerun: bool = True) -> None:
        """Settle a job whose process, as last seen, is dead: end the job, or let it go on with a new process.

        Args: may_rerun: whether nothing of it can live, wherever its process was; then a command that may be run again
            is.
        """
        if self._locks_claimed is not None and self._jobs.work_left(job) is not None:
            await self._locks_claimed.wait()
        if not self._is_current(job):
            return
        job_id = job.job_id
        self._claim(job)
        self._jobs.processes.gone(job_id)
        try:
            job = await self._jobs.unread.until_read(job_id, self._read_whole)
        except (NotFound, DamagedFile) as error:
            await self._end_unknown(job, error)
            return
        # the process may have died before it had synced the file
        await self._store.files.take_up([job_id], are_dead=True)
        if job.next_index is None:
            self._events.ended(job)
            return
        job = await self._with_told_priority(job)
        ask = self._jobs.processes.ask(job_id)
        by = asked_by(self._store.paths.asker_note(job_id))
        ended = after_death(job, ask, timestamp(), time.time_ns(), by, self._circumstances(job_id))
        if ended is not None and ask is None and may_rerun and is_rerunnable(job, takes_up=self._jobs.takes_up):
            again = after_lost_try(job, time.time(), await in_thread(self._output_ends, job_id))
            _log.warning("job.try_lost", job=job_id, pid=job.process_id, next="its command is run again")
            await self._rewriting.put_back(again)
        elif ended is not None:
            self._jobs.counts.died += 1
            _log.warning("job.died", job=job_id, pid=job.process_id, asked=ask.value if ask is not None else None)
            await self._rewriting.finish(ended)
        elif (work := self._jobs.work_left(job)) is not None:
            self._count_life(job_id)
            _log.warning("job.orphaned", job=job_id, pid=job.process_id, node=work.node, next="another process")
            self._events.requeue(job)
        elif self._attempts.made_progress(job):
            _log.info("job.continued", job=job_id, opcode=job.next_index)
            self._events.requeue(job)
        else:
            await self._attempts.failed(job, "the job's process ended before it did anything")

    async def _put_back(self, job: Job) -> None:
        self._events.requeue(await self._with_told_priority(job))

    async def _with_told_priority(self, job: Job) -> Job:
        """The job, which is written if its process ended before it had heard of a new priority."""
        told = self._jobs.processes.told_priorities
        priority = await self._jobs.unread.until_read(job.job_id, told.left)
        if priority is not None:
            job = set_priority(job, priority)
            await self._rewriting.keep(job)
            _log.info("job.priority", job=job.job_id, priority=priority, reason="its process had not heard of it")
        told.withdraw(job.job_id)
        return job

    def _output_ends(self, job_id: JobId) -> tuple[int, int]:
        paths = self._store.paths
        try:
            return stream_end(paths.output_file(job_id)), stream_end(paths.error_output_file(job_id))
        except OSError as error:
            _log.warning("output.unmeasured", job=job_id, error=error, effect="its tries' outputs are shown together")
            return 0, 0

    def _claim(self, job: Job) -> None:
        """From here on no other task settles it, and its file is ours. It keeps its slot if its command goes on."""
        if self._jobs.work_left(job) is None:
            self._jobs.queue.hold(job.job_id)
        else:
            self._jobs.queue.orphan(job)

    def _circumstances(self, job_id: JobId) -> Circumstances:
        has_moved = self._jobs.processes.record(job_id).has_moved
        return Circumstances(takes_up=self._jobs.takes_up, has_moved=has_moved)

    def _count_life(self, job_id: JobId) -> None:
        record = self._jobs.processes.record(job_id)
        is_short = trio.current_time() - record.started_s < LONG_LIFE_S
        record.short_lives = record.short_lives + 1 if is_short else 1

    def _read_whole(self, job_id: JobId) -> Job:
        """Return the job with all its log lines. Raises: as `Store.read_job`."""
        return self._store.logs.add_all(self._store.read_job(job_id))

    async def _end_unknown(self, job: Job, error: GantryError) -> None:
        """End a job of which it is unknown what it has done: it is never run again."""
        self._jobs.counts.died += 1
        _log.error("job.damaged", job=job.job_id, reason=error, moved_to=self._store.paths.damaged)
        await self._rewriting.set_aside(job.job_id)
        text = f"the process of job {job.job_id} ended, and what it did is not known: {error.message}"
        await self._rewriting.finish(fail_job(job, text, DEATH_SOURCE, timestamp(), time.time_ns()))

    async def _probe(self, job: Job, record: JobProcess) -> None:
        try:
            if job.livelock is None or await is_found_dead(job.livelock):
                self._nursery.start_soon(self.settle, job)
        finally:
            record.is_probed = False
            if record.is_suspected_again:
                record.is_suspected_again = False
                self._jobs.processes.suspect(job.job_id)

    def _running_jobs(self) -> list[Job]:
        return [self._jobs.unended(job_id) for job_id in self._jobs.queue.running()]

    def _is_current(self, job: Job) -> bool:
        """Whether the job still has the same process, which has not written the job's end."""
        if self._jobs.queue.phase(job.job_id) is not Phase.RUNNING:
            return False
        if self._jobs.processes.record(job.job_id).has_written_end:
            return False
        return self._jobs.unended(job.job_id).livelock == job.livelock


# Units of jobs that have ended, while something of them may still run: given back by the proof that frees locks, too.
#
# Theory. The end of a job in its file proves nothing: its process is about to end; or it has left processes under its
# locks (`--keep-locks`); or its command may run on a node that does not reply, and its locks are
# orphaned. What proves the end on this machine is that nobody holds the job's livelock. Of a job with commands on
# nodes, moreover, no orphaned locks are known, and the livelock's file is gone: wconfd removes it when it has freed the
# owner, and not while that has orphaned locks.
#
# A luxid that starts finds these jobs by the livelocks in their folder, and by the orphaned locks. It does so before
# any job that uses resources is started (`is_ready`).
#
# Source: DESIGN sections 5 and 16; everyday.md section e.


# interval of the backstop behind the events
SWEEP_S: Final = 5.0


class LeftUnits:
    """The ended jobs that have units still; start `run`."""

    def __init__(self, jobs: LiveJobs, store: Store) -> None:
        self._jobs = jobs
        self._store = store
        # jobs that have ended and keep their units
        self._kept: dict[JobId, Job] = {}
        self._new: list[Job] = []
        # None: not told yet, or there are no other nodes
        self._orphans: frozenset[JobId] | None = None
        self._has_news = trio.Event()
        # set when all that an earlier luxid has left is known
        self.is_ready = trio.Event()

    # what happens

    def keeps(self, job: Job) -> bool:
        """Whether a job that has just ended keeps its units for now; then their end is told by `run`."""
        if not self._jobs.queue.units.stock.has(job.job_id) or self._is_over(job):
            return False
        self._keep(job)
        return True

    def orphans_told(self, job_ids: Iterable[JobId]) -> None:
        """Take note of the jobs that have orphaned locks now."""
        self._orphans = frozenset(job_ids)
        self._has_news.set()
        for job in self._kept.values():
            self._ring(job)

    # what follows

    async def run(self, livelocks: Path, free: Callable[[JobId], None]) -> None:
        """Report the jobs whose units are free by `free`, until cancelled.

        Args: livelocks: folder of livelocks.
        """
        for job_id in sorted(livelocks_of_jobs(livelocks)):
            await self._adopt(JobId(job_id))
        async with trio.open_nursery() as nursery:
            while True:
                self._has_news = trio.Event()
                for job_id in sorted(self._orphans or ()):
                    await self._adopt(job_id)
                if self._orphans is not None or not self._jobs.takes_up:
                    self.is_ready.set()
                new, self._new = self._new, []
                for job in new:
                    nursery.start_soon(self._until_over, job, free)
                await self._has_news.wait()

    async def _until_over(self, job: Job, free: Callable[[JobId], None]) -> None:
        livelock = job.livelock or ""
        with self._jobs.processes.livelock_releases.listen(os.path.basename(livelock)) as broadcast:
            while not self._is_over(job):
                with trio.move_on_after(SWEEP_S):
                    await broadcast.wait()
                # the broadcast rings a moment before the lock is released
                await is_found_dead(livelock)
        del self._kept[job.job_id]
        _log.debug("units.free", job=job.job_id)
        free(job.job_id)

    async def _adopt(self, job_id: JobId) -> None:
        """Let a job that an earlier luxid has seen end keep its units, if something of it may run."""
        units = self._jobs.queue.units
        if self._jobs.phase(job_id) is not None or units.stock.has(job_id):
            return
        try:
            job = await self._jobs.unread.until_read(job_id, self._find)
        except DamagedFile as error:
            _log.error("job.damaged", job=job_id, reason=error, effect="units that it used are not counted")
            return
        if job is not None and (uses := uses_of(job)) and not self._is_over(job):
            units.take(job_id, uses)
            _log.info("units.kept", job=job_id, reason="processes of it may still run")
            self._keep(job)

    def _find(self, job_id: JobId) -> Job | None:
        return self._jobs.table.get(job_id) or self._store.find_archived(job_id)

    def _keep(self, job: Job) -> None:
        self._kept[job.job_id] = job
        self._new.append(job)
        self._has_news.set()

    def _ring(self, job: Job) -> None:
        self._jobs.processes.livelock_releases.notify(os.path.basename(job.livelock or ""))

    def _is_over(self, job: Job) -> bool:
        """Whether it is proven that nothing of the ended job runs."""
        if job.livelock is None:
            return True
        if is_alive(job.livelock):
            return False
        has_node = self._jobs.takes_up and any(op.input.get("node") for op in job.ops)
        return not has_node or not (job.job_id in (self._orphans or ()) or os.path.exists(job.livelock))
