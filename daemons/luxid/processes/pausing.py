"""Asking running jobs to stop before their next opcode.

The word is a file among the messages for job processes, which a process looks for between two opcodes, and while an
opcode waits for its locks: for that it is woken by the signal that also tells of a new priority. It then gives up its
locks and ends, as before an opcode that waits for other jobs, and the job is continued when no rule pauses it any more.

An external executor is woken only if it said in its handshake that it heeds this (`protocol.forkserver`): to another
one the signal means a priority, which it would not find.

A request that the disk refuses is tried again: an error of the disk is no verdict on the job.

Source: filters design; DESIGN section 11, "PAUSE".
"""

import signal
from collections.abc import Iterable

import trio

from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log
from daemons.luxid.files.unread import pauses
from daemons.luxid.livejobs import LiveJobs
from daemons.luxid.processes.signals import signal_process

_log = get_log(__name__)


class Pauses:
    """The requests to pause; those of an earlier luxid are withdrawn.

    Args:
        all_heed: whether every process heeds a request; else those that said so to this luxid.
    """

    def __init__(self, paths: Paths, jobs: LiveJobs, *, all_heed: bool) -> None:
        self._paths = paths
        self._jobs = jobs
        self._all_heed = all_heed
        # jobs for which the disk refused, and it is tried again
        self._retried: set[JobId] = set()
        for left in paths.messages.glob("*.pause"):
            left.unlink(missing_ok=True)

    def tell(self, job_ids: Iterable[JobId]) -> list[JobId]:
        """Ask these jobs to pause, or withdraw that, as the rules now are; returns those that the disk refused."""
        return [job_id for job_id in job_ids if not self._tell(job_id)]

    async def until_told(self, job_id: JobId) -> None:
        """Tell the job again until the disk takes it, with pauses that double."""
        if job_id in self._retried:
            return
        self._retried.add(job_id)
        try:
            for pause_s in pauses():
                await trio.sleep(pause_s)
                if self._tell(job_id):
                    return
        finally:
            self._retried.discard(job_id)

    def _tell(self, job_id: JobId) -> bool:
        return self._ask(job_id) if self._jobs.queue.should_pause(job_id) else self._withdraw(job_id)

    def _ask(self, job_id: JobId) -> bool:
        """Let the job stop before its next opcode, and give up what it waits for; false: the disk refused."""
        try:
            self._paths.pause_message(job_id).touch()
        except OSError as error:
            _log.error("job.pause_not_asked", job=job_id, reason=error, effect="it runs on until this succeeds")
            return False
        is_woken = self._is_heeded(job_id) and signal_process(self._jobs.unended(job_id), signal.SIGUSR1)
        _log.info("job.pause_asked", job=job_id, woken=is_woken)
        return True

    def _is_heeded(self, job_id: JobId) -> bool:
        """Whether the process is known to understand a request, and may be woken."""
        return self._all_heed or self._jobs.processes.heeds_pauses(job_id)

    def _withdraw(self, job_id: JobId) -> bool:
        """The job need not stop any more, or has; false: the disk refused."""
        try:
            self._paths.pause_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.pause_not_withdrawn", job=job_id, reason=error, effect="it may stop once for nothing")
            return False
        return True
