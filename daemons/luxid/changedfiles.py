"""What job processes write, taken into the queue: their jobs' files and logs.

A file is read when the kernel tells that it was replaced; by us, which is known already, or by the process that has
the job. Reading is exact however often it is done: what is seen already changes nothing.

Source: DESIGN sections 3 and 6; luxid.md 5.7.
"""

from collections.abc import Iterable
from typing import Final

from common.errors import DamagedFile
from common.locks import JobId
from common.log import get_log
from daemons.luxid.core.decisions import Phase
from daemons.luxid.scheduler import Scheduler

_log: Final = get_log(__name__)


class ChangedFiles:
    """Looks at the files of jobs that have a process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def replaced(self, job_ids: Iterable[JobId]) -> None:
        """The files of these jobs were replaced."""
        for job_id in job_ids:
            if self._scheduler.queue.phase(job_id) is Phase.RUNNING:
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
            job = self._scheduler.store.read_job(job_id)
        except (OSError, DamagedFile) as error:
            # goes on as last seen; if the process is dead as well that is found out by its livelock
            _log.warning("job.unreadable", job=job_id, reason=error)
            return
        if job.next_index is None:
            self._scheduler.ended(job)
        elif job != self._scheduler.table.get(job_id):
            self._scheduler.advanced(job)
