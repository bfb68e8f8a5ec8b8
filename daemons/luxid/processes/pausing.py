"""Ask running jobs to stop before their next opcode.

The request is a file among the messages for job processes. A process looks for it between two opcodes, and while an
opcode waits for its locks, for which the signal wakes it that also announces a new priority. It then releases its
locks and ends, as before an opcode that waits for other jobs, and the job is continued when no rule pauses it any more.
An external executor is woken only if it reported its support in the handshake (`protocol.forkserver`): for
others the signal means a new priority, which they would not find.
If the disk refuses a request, it is tried again: a disk error is not a verdict on the job.

Source: filters design; DESIGN section 11, "PAUSE".
"""

import signal
from collections.abc import Iterable

import trio

from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.luxid.jobs.livejobs import LiveJobs
from daemons.luxid.processes.signals import signal_process

_log = get_log(__name__)


class Pauses:
    """The requests to pause; those of an earlier luxid are withdrawn.

    Args:
        all_heed: whether every process supports requests; else only those that reported it to this luxid.
    """

    def __init__(self, paths: Paths, jobs: LiveJobs, *, all_heed: bool) -> None:
        self._paths = paths
        self._jobs = jobs
        self._all_heed = all_heed
        # whether all jobs are asked, whatever the rules say
        self.all_pause = False
        # jobs whose requests the disk refused, and that are being retried
        self._retried: set[JobId] = set()
        for left in paths.messages.glob("*.pause"):
            left.unlink(missing_ok=True)

    def tell(self, job_ids: Iterable[JobId]) -> list[JobId]:
        """Ask these jobs to pause, or withdraw that, by the present rules; return those that the disk refused."""
        return [job_id for job_id in job_ids if not self._tell(job_id)]

    async def until_told(self, job_id: JobId) -> None:
        """Repeat the request until the disk takes it, with pauses that double."""
        if job_id in self._retried:
            return
        self._retried.add(job_id)
        try:
            for pause_s in retry_pauses():
                await trio.sleep(pause_s)
                if self._tell(job_id):
                    return
        finally:
            self._retried.discard(job_id)

    def _tell(self, job_id: JobId) -> bool:
        should_pause = self.all_pause or self._jobs.queue.should_pause(job_id)
        return self._ask(job_id) if should_pause else self._withdraw(job_id)

    def _ask(self, job_id: JobId) -> bool:
        """Ask the job to stop before its next opcode and to drop its waiting request; false: the disk refused."""
        try:
            self._paths.pause_message(job_id).touch()
        except OSError as error:
            _log.error("job.pause_not_asked", job=job_id, reason=error, effect="it runs on until this succeeds")
            return False
        is_woken = self._is_heeded(job_id) and signal_process(self._jobs.unended(job_id), signal.SIGUSR1)
        _log.info("job.pause_asked", job=job_id, woken=is_woken)
        return True

    def _is_heeded(self, job_id: JobId) -> bool:
        """Whether the process is known to support requests, and may be woken."""
        return self._all_heed or self._jobs.processes.heeds_pauses(job_id)

    def _withdraw(self, job_id: JobId) -> bool:
        """Withdraw the request, if there is one; return false if the disk refused."""
        try:
            self._paths.pause_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.pause_not_withdrawn", job=job_id, reason=error, effect="it may stop once for nothing")
            return False
        return True
