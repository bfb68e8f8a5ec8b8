"""Asking running jobs to stop before their next opcode.

The word is a file among the messages for job processes, which a process looks for between two opcodes, and when an
opcode gets locks that it waited for; there is nothing to wake it for. It then ends, as before an opcode that waits for
other jobs, and the job is continued when no rule pauses it any more.

Source: filters design; DESIGN section 11, "PAUSE".
"""

from common.locks import JobId
from common.log import get_log
from common.paths import Paths

_log = get_log(__name__)


class Pauses:
    """The requests to pause; those of an earlier luxid are withdrawn."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        for left in paths.messages.glob("*.pause"):
            left.unlink(missing_ok=True)

    def ask(self, job_id: JobId) -> None:
        """Let the job stop before its next opcode."""
        try:
            self._paths.pause_message(job_id).touch()
        except OSError as error:
            _log.error("job.pause_not_asked", job=job_id, reason=error, effect="it runs on to its end")
            return
        _log.info("job.pause_asked", job=job_id)

    def withdraw(self, job_id: JobId) -> None:
        """The job need not stop any more, or has."""
        try:
            self._paths.pause_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.pause_not_withdrawn", job=job_id, reason=error, effect="it stops once for nothing")
