"""What job processes write, taken into the queue: their jobs' files and logs.

A file is read when the kernel tells that it was replaced; by us, which is known already, or by the process that has
the job. Reading is exact however often it is done: what is seen already changes nothing.

Source: DESIGN sections 3 and 6; luxid.md 5.7.
"""

from collections.abc import Iterable
from typing import Final

import trio

from common.errors import DamagedFile, NotFound, Unavailable
from common.jobs import Job
from common.locks import JobId
from common.log import get_log
from daemons.luxid.core.decisions import Phase
from daemons.luxid.scheduler import Scheduler

_log: Final = get_log(__name__)


class ChangedFiles:
    """Looks at the files of jobs that have a process.

    Args:
        nursery: where files that cannot be read are waited for.
    """

    def __init__(self, scheduler: Scheduler, nursery: trio.Nursery) -> None:
        self._scheduler = scheduler
        self._nursery = nursery
        # jobs whose files are waited for
        self._awaited: set[JobId] = set()

    def replaced(self, job_ids: Iterable[JobId]) -> None:
        """The files of these jobs were replaced."""
        for job_id in job_ids:
            if self._has_process(job_id):
                self._look_at(job_id)

    def logs_grew(self, job_ids: Iterable[JobId]) -> None:
        """Job processes appended to their logs."""
        for job_id in job_ids:
            self._scheduler.bells.ring(job_id)

    def look_at_all(self) -> None:
        """Anything may have changed."""
        running = self._scheduler.queue.running()
        self.replaced(running)
        self.logs_grew(running)

    def _look_at(self, job_id: JobId) -> None:
        try:
            self._take(self._scheduler.store.read_job(job_id))
        except Unavailable:
            if job_id not in self._awaited:
                self._awaited.add(job_id)
                self._nursery.start_soon(self._wait_for, job_id)
        except (NotFound, DamagedFile) as error:
            _tell_of_damage(job_id, error)

    async def _wait_for(self, job_id: JobId) -> None:
        """Look at a file that cannot be read, as soon as it can; the event that told of it does not come again."""
        try:
            job = await self._scheduler.unread.until_read(job_id, self._read_while_it_has_a_process)
            if job is not None:
                self._take(job)
        except (NotFound, DamagedFile) as error:
            _tell_of_damage(job_id, error)
        finally:
            self._awaited.discard(job_id)

    def _read_while_it_has_a_process(self, job_id: JobId) -> Job | None:
        return self._scheduler.store.read_job(job_id) if self._has_process(job_id) else None

    def _take(self, job: Job) -> None:
        if job.next_index is None:
            self._scheduler.ended(job)
        elif job != self._scheduler.job(job.job_id):
            self._scheduler.advanced(job)

    def _has_process(self, job_id: JobId) -> bool:
        return self._scheduler.queue.phase(job_id) is Phase.RUNNING


def _tell_of_damage(job_id: JobId, error: Exception) -> None:
    effect = "the job's process writes it anew; if it ends before, the job is ended"
    _log.warning("job.damaged", job=job_id, reason=error, effect=effect)
