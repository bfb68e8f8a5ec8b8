"""Job processes that are gone: found by events, and what becomes of their jobs.

A death is told by the livelock's folder (the kernel closes a dead process's files) and by the fork
server; what is told is never believed, only probed. A sweep is the backstop: a death that it finds
first is a missed event, and counted.

Source: DESIGN sections 3 (invariants 2 and 5) and 5; luxid.md 5.8.
"""

import time
from collections.abc import Iterable
from typing import Final

import trio

from common.errors import DamagedFile, GantryError, NotFound
from common.ids import JobId
from common.queue.jobs import Job
from common.system.deathprobe import is_found_dead
from common.system.livelock import PROBE_AGAIN_AFTER_S, is_alive
from common.system.log import get_log
from daemons.luxid.core.queue.decisions import Phase
from daemons.luxid.core.queue.recovery import DEATH_SOURCE, after_death, fail_job
from daemons.luxid.files.rewriting import timestamp
from daemons.luxid.processes.starting import Starter
from daemons.luxid.scheduler import Scheduler
from protocol.forkserver import JobExited

_log: Final = get_log(__name__)


class Deaths:
    """Finds dead job processes and settles their jobs."""

    def __init__(self, scheduler: Scheduler, starter: Starter, nursery: trio.Nursery) -> None:
        self._scheduler = scheduler
        self._starter = starter
        self._nursery = nursery
        self._probing: set[JobId] = set()
        # told again while it was being probed
        self._told_again: set[JobId] = set()
        starter.on_broken = self.suspect

    def livelocks_touched(self, names: Iterable[str]) -> None:
        for name in names:
            if (job_id := self._starter.livelocks.get(name)) is not None:
                self.suspect(job_id)
            self._scheduler.livelock_bells.ring(name)

    def exited(self, notice: JobExited) -> None:
        """The fork server reaped a child; a command of it may still live, and then the job does."""
        self.suspect(notice.job_id)

    def suspect(self, job_id: JobId) -> None:
        """Probe whether the job's process lives."""
        if self._scheduler.queue.phase(job_id) is not Phase.RUNNING:
            return
        if job_id in self._probing:
            self._told_again.add(job_id)
            return
        self._probing.add(job_id)
        self._nursery.start_soon(self._probe, job_id)

    def suspect_all(self) -> None:
        for job_id in self._scheduler.queue.running():
            self.suspect(job_id)

    async def sweep(self, every_s: float) -> None:
        """Look at all running jobs now and then, until cancelled."""
        while True:
            await trio.sleep(every_s)
            dead = [job for job in self._running_jobs() if not _lives(job)]
            if not dead:
                continue
            # what was told just now is on its way already
            await trio.sleep(sum(PROBE_AGAIN_AFTER_S))
            for job in dead:
                if self._is_current(job) and job.job_id not in self._probing:
                    self._scheduler.swept_deaths += 1
                    _log.warning("sweep.found_dead", job=job.job_id, effect="handled now; no event told of it")
                    self._nursery.start_soon(self.settle, job)

    async def settle(self, job: Job) -> None:
        """The process of this job, as last seen, is dead: end the job, or let it go on with a new process."""
        if not self._is_current(job):
            return
        scheduler = self._scheduler
        job_id = job.job_id
        # from here on nobody else settles it, and its file is ours
        scheduler.queue.hold(job_id)
        self._starter.forget(job)
        try:
            job = await scheduler.unread.until_read(job_id, self._read_whole)
        except (NotFound, DamagedFile) as error:
            await self._end_unknown(job, error)
            return
        # it may have died before it had synced what we just read
        await scheduler.store.queue_folder.sync()
        if job.next_index is None:
            scheduler.ended(job)
            return
        ended = after_death(job, scheduler.asks.get(job_id), timestamp(), time.time_ns())
        if ended is not None:
            _log.warning("job.died", job=job_id, pid=job.process_id, asked=_asked(scheduler, job_id))
            await scheduler.rewriting.finish(ended)
        elif self._starter.made_progress(job):
            _log.info("job.continued", job=job_id, opcode=job.next_index)
            scheduler.requeue(job)
        else:
            await self._starter.failed(job, "the job's process ended before it did anything")

    def _read_whole(self, job_id: JobId) -> Job:
        """The job with all its log lines. Raises: as `Store.read_job`."""
        return self._scheduler.logs.add_all(self._scheduler.store.read_job(job_id))

    async def _end_unknown(self, job: Job, error: GantryError) -> None:
        """Nobody can tell what the job, as last seen, has done: it is never run again."""
        _log.error("job.damaged", job=job.job_id, reason=error, moved_to=self._scheduler.store.paths.damaged)
        await self._scheduler.rewriting.set_aside(job.job_id)
        text = f"the process of job {job.job_id} ended, and what it did is not known: {error.message}"
        await self._scheduler.rewriting.finish(fail_job(job, text, DEATH_SOURCE, timestamp(), time.time_ns()))

    async def _probe(self, job_id: JobId) -> None:
        try:
            job = self._scheduler.job(job_id)
            if job.livelock is None or await is_found_dead(job.livelock):
                self._nursery.start_soon(self.settle, job)
        finally:
            self._probing.discard(job_id)
            if job_id in self._told_again:
                self._told_again.discard(job_id)
                self.suspect(job_id)

    def _running_jobs(self) -> list[Job]:
        return [self._scheduler.job(job_id) for job_id in self._scheduler.queue.running()]

    def _is_current(self, job: Job) -> bool:
        """Whether the job still has the process that it had."""
        if self._scheduler.queue.phase(job.job_id) is not Phase.RUNNING:
            return False
        return self._scheduler.job(job.job_id).livelock == job.livelock


def _lives(job: Job) -> bool:
    return job.livelock is not None and is_alive(job.livelock)


def _asked(scheduler: Scheduler, job_id: JobId) -> str | None:
    ask = scheduler.asks.get(job_id)
    return ask.value if ask is not None else None
