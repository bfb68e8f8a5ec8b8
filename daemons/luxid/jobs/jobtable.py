"""The live jobs as luxid last saw them.

All unfinished jobs are kept in memory; of ended ones only the latest without a long log. The
others are read from disk on request. So memory does not grow with finished work.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from common.errors import Unavailable
from common.ids import JobId
from common.queue.jobs import Job
from common.system.inthread import in_thread
from common.system.log import get_log

FINAL_KEPT: Final = 10_000
LONG_LOG: Final = 50
_READ_AT_ONCE: Final = 200
_log: Final = get_log(__name__)


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

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def ids(self) -> list[JobId]:
        """All live jobs, ascending."""
        return sorted(self._jobs)

    def put(self, job: Job) -> None:
        """Record a new or changed job, as its file has it."""
        if job.next_index is not None:
            self._jobs[job.job_id] = job
        elif sum(len(op.log) for op in job.ops) > LONG_LOG:
            self._jobs[job.job_id] = None
        else:
            self._jobs[job.job_id] = job
            self._keep(job.job_id)

    def drop(self, job_id: JobId) -> None:
        """Forget a job that is no longer live."""
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
