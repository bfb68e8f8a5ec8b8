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
from collections.abc import Callable

import trio

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job
from common.system.log import get_log
from daemons.luxid.files.unread import pauses
from daemons.luxid.processes.signals import signal_process

_log = get_log(__name__)


class Pauses:
    """The requests to pause; those of an earlier luxid are withdrawn."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # jobs for which the disk refused, and it is tried again
        self._retried: set[JobId] = set()
        for left in paths.messages.glob("*.pause"):
            left.unlink(missing_ok=True)

    def ask(self, job: Job, *, is_heeded: bool) -> bool:
        """Let the job stop before its next opcode, and give up what it waits for; false: the disk refused.

        Args:
            is_heeded: whether its process is known to understand that, and may be woken.
        """
        job_id = job.job_id
        try:
            self._paths.pause_message(job_id).touch()
        except OSError as error:
            _log.error("job.pause_not_asked", job=job_id, reason=error, effect="it runs on until this succeeds")
            return False
        is_woken = is_heeded and signal_process(job, signal.SIGUSR1)
        _log.info("job.pause_asked", job=job_id, woken=is_woken)
        return True

    def withdraw(self, job_id: JobId) -> bool:
        """The job need not stop any more, or has; false: the disk refused."""
        try:
            self._paths.pause_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.pause_not_withdrawn", job=job_id, reason=error, effect="it may stop once for nothing")
            return False
        return True

    async def until_told(self, job_id: JobId, tell: Callable[[], bool]) -> None:
        """Try until the disk takes it, with pauses that double.

        Args:
            tell: asks or withdraws, as things are when it is called; returns what that returns.
        """
        if job_id in self._retried:
            return
        self._retried.add(job_id)
        try:
            for pause_s in pauses():
                await trio.sleep(pause_s)
                if tell():
                    return
        finally:
            self._retried.discard(job_id)
