"""The jobs that are being killed: messages to their processes, and to the next luxid.

The message is a file among the messages for job processes, written before the first signal. So a process knows what
its SIGTERM means, and a luxid that starts in the middle of a kill continues it.

Source: DESIGN section 16.
"""

from typing import Final

from common.access import Caller
from common.ids import JobId
from common.paths import Paths
from common.queue.askers import note_asker
from common.system.log import get_log

_SUFFIX: Final = ".kill"
_NOTE_SUFFIX: Final = ".asker"
_log: Final = get_log(__name__)


class KillMessages:
    """The requests to kill jobs that have a process."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # jobs with a note of who asked, notes of an earlier luxid included
        self._noted: set[JobId] = set()

    def found(self) -> frozenset[JobId]:
        """The jobs with a kill message, of this luxid or an earlier one."""
        return self._left(_SUFFIX)

    def noted(self) -> frozenset[JobId]:
        """The jobs with a note of who asked for their end."""
        self._noted.update(self._left(_NOTE_SUFFIX))
        return frozenset(self._noted)

    def _left(self, suffix: str) -> frozenset[JobId]:
        names = [path.name.removesuffix(suffix) for path in self._paths.messages.glob(f"*{suffix}")]
        return frozenset(JobId(int(name)) for name in names if name.isascii() and name.isdigit())

    def ask(self, job_id: JobId) -> None:
        """Record that the job is being killed."""
        try:
            self._paths.kill_message(job_id).touch()
        except OSError as error:
            _log.error(
                "job.kill_not_told", job=job_id, reason=error, effect="it is killed by luxid after the grace time"
            )

    def note(self, job_id: JobId, caller: Caller, *, kill: bool) -> None:
        """Record the user who asks for the end of a job that has a process, for the text of the job's end."""
        by = {"uid": caller} if isinstance(caller, int) else {"speaker": caller}
        _log.info("job.end_asked", job=job_id, **by, kill=kill)
        self._noted.add(job_id)
        try:
            note_asker(self._paths.asker_note(job_id), caller)
        except OSError as error:
            _log.warning("job.asker_not_noted", job=job_id, reason=error, effect="only this log says who asked")

    def withdraw(self, job_id: JobId, *, was_kill: bool = True) -> None:
        """Remove the messages of an ended job. Costs nothing if there are none."""
        try:
            if job_id in self._noted:
                self._paths.asker_note(job_id).unlink(missing_ok=True)
                self._noted.discard(job_id)
            if was_kill:
                self._paths.kill_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.kill_message_left", job=job_id, reason=error, effect="the next luxid removes it")
