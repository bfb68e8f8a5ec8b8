"""Failed starts: another attempt after a pause, or the end of the job.

Source: DESIGN section 7.
"""

import time
from collections import Counter
from typing import Final

import trio

from common.queue.jobs import Job
from common.queue.tries import tries_so_far
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.luxid.core.queue.recovery import START_SOURCE, fail_job
from daemons.luxid.jobs.jobevents import JobEvents
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.jobs.rewriting import Rewriting, timestamp

# prefix of the obstacle, followed by the reason, for users who ask what holds their job
BACK_OFF: Final = "a start failed and is tried again soon"
_log: Final = get_log(__name__)


class Attempts:
    """Counts the attempts of each job.

    Args:
        limit: number of consecutive failures after which a job is ended.
    """

    def __init__(self, jobs: LiveJobs, rewriting: Rewriting, events: JobEvents, limit: int) -> None:
        self._jobs = jobs
        self._rewriting = rewriting
        self._events = events
        self._limit = limit
        self._retries = retry_pauses()
        # obstacle -> number of present pauses with it; it stays until the last of them is over
        self._pauses: Counter[str] = Counter()

    def succeeded(self) -> None:
        """Record a successful start: the next pause is short again."""
        self._retries = retry_pauses()

    def made_progress(self, job: Job) -> bool:
        """Whether the process that is now gone has ended at least one opcode, or a try of one."""
        record = self._jobs.processes.record(job.job_id)
        has_progress = record.begun_at != job.next_index or tries_so_far(job) > record.begun_tries
        record.begun_at = None
        if has_progress:
            record.failures = 0
        return has_progress

    async def failed(self, job: Job, reason: str) -> None:
        """Handle the failure of a process: try again, but not for ever."""
        record = self._jobs.processes.record(job.job_id)
        record.failures += 1
        if record.failures < self._limit or self._jobs.work_left(job) is not None:
            await self.back_off(job, reason)
            return
        attempts = f" ({record.failures} attempts)" if record.failures > 1 else ""
        text = f"job could not be started: {reason}{attempts}"
        _log.error("job.not_started", job=job.job_id, reason=reason, attempts=record.failures)
        self._jobs.queue.hold(job.job_id)
        await self._rewriting.finish(fail_job(job, text, START_SOURCE, timestamp(), time.time_ns()))

    async def back_off(self, job: Job, reason: str) -> None:
        """Put the job back into the queue, and start no job for a pause that doubles each time.

        A job with a command on a node has pauses of its own (`TakeUps`).
        """
        if self._jobs.work_left(job) is not None:
            self._jobs.processes.record(job.job_id).failures += 1
            _log.warning("job.not_taken_up", job=job.job_id, reason=reason, next="another attempt after a pause")
            self._events.requeue(job)
            return
        pause_s = next(self._retries)
        _log.warning("job.start_failed", job=job.job_id, reason=reason, retry_s=pause_s)
        obstacle = f"{BACK_OFF}: {reason}"
        self._pauses[obstacle] += 1
        self._events.obstruct(obstacle)
        self._events.requeue(job)
        await trio.sleep(pause_s)
        self._pauses[obstacle] -= 1
        if not self._pauses[obstacle]:
            del self._pauses[obstacle]
            self._events.clear(obstacle)
