"""Units of jobs that have ended, while something of them may still run: given back by the proof that frees locks, too.

Theory. The end of a job in its file proves nothing: its process is about to end; or it has left processes under its
locks (`--keep-locks`); or its command may run on a node that does not reply, and its locks are a ghost's. What proves
the end on this machine is that nobody holds the job's livelock. Of a job with commands on nodes, moreover, no ghost is
known, and the livelock's file is gone: wconfd removes it when it has freed the owner, and not while that is a ghost.

A luxid that starts finds these jobs by the livelocks in their folder, and by the ghosts. It does so before any job that
uses resources is started (`is_ready`).

Source: DESIGN sections 5 and 16; everyday.md section e.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import trio

from common.errors import DamagedFile
from common.ids import JobId
from common.queue.jobs import Job
from common.system.deathprobe import is_found_dead
from common.system.livelock import is_alive
from common.system.log import get_log
from daemons.luxid.core.resources.wants import uses_of
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.livejobs import LiveJobs

# interval of the backstop behind the events
SWEEP_S: Final = 5.0
_LIVELOCK: Final = re.compile(r"job_(\d+)_\d+", re.ASCII)
_log: Final = get_log(__name__)


class LeftUnits:
    """The ended jobs that have units still; start `run`."""

    def __init__(self, jobs: LiveJobs, store: Store) -> None:
        self._jobs = jobs
        self._store = store
        # jobs that have ended and keep their units
        self._kept: dict[JobId, Job] = {}
        self._new: list[Job] = []
        # None: not told yet, or there are no other nodes
        self._ghosts: frozenset[JobId] | None = None
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

    def ghosts_told(self, job_ids: Iterable[JobId]) -> None:
        """Take note of the jobs that are ghosts now."""
        self._ghosts = frozenset(job_ids)
        self._has_news.set()
        for job in self._kept.values():
            self._ring(job)

    # what follows

    async def run(self, livelocks: Path, free: Callable[[JobId], None]) -> None:
        """Report the jobs whose units are free by `free`, until cancelled.

        Args: livelocks: folder of livelocks.
        """
        for job_id in _livelocks_of_jobs(livelocks):
            await self._adopt(job_id)
        async with trio.open_nursery() as nursery:
            while True:
                self._has_news = trio.Event()
                for job_id in sorted(self._ghosts or ()):
                    await self._adopt(job_id)
                if self._ghosts is not None or not self._jobs.takes_up:
                    self.is_ready.set()
                new, self._new = self._new, []
                for job in new:
                    nursery.start_soon(self._until_over, job, free)
                await self._has_news.wait()

    async def _until_over(self, job: Job, free: Callable[[JobId], None]) -> None:
        livelock = job.livelock or ""
        with self._jobs.processes.livelock_bells.listen(os.path.basename(livelock)) as bell:
            while not self._is_over(job):
                with trio.move_on_after(SWEEP_S):
                    await bell.wait()
                # the bell rings a moment before the lock is released
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
        self._jobs.processes.livelock_bells.ring(os.path.basename(job.livelock or ""))

    def _is_over(self, job: Job) -> bool:
        """Whether it is proven that nothing of the ended job runs."""
        if job.livelock is None:
            return True
        if is_alive(job.livelock):
            return False
        has_node = self._jobs.takes_up and any(op.input.get("node") for op in job.ops)
        return not has_node or not (job.job_id in (self._ghosts or ()) or os.path.exists(job.livelock))


def _livelocks_of_jobs(folder: Path) -> list[JobId]:
    found = (_LIVELOCK.fullmatch(name) for name in os.listdir(folder))
    return sorted({JobId(int(match[1])) for match in found if match})
