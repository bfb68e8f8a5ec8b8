"""Which jobs are being killed: told to their processes, and to the next luxid.

The word is a file among the messages for job processes, there before the first signal. So a process knows what its
SIGTERM means, and a luxid that is started in the middle of a kill goes on with it.

Source: DESIGN section 16.
"""

from typing import Final

from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log

_SUFFIX: Final = ".kill"
_log: Final = get_log(__name__)


class KillMessages:
    """The requests to kill jobs that have a process."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def found(self) -> frozenset[JobId]:
        """The jobs of which an earlier luxid, or this one, has said so."""
        names = [path.name.removesuffix(_SUFFIX) for path in self._paths.messages.glob(f"*{_SUFFIX}")]
        return frozenset(JobId(int(name)) for name in names if name.isdigit())

    def ask(self, job_id: JobId) -> None:
        """Say that the job is being killed."""
        try:
            self._paths.kill_message(job_id).touch()
        except OSError as error:
            _log.error(
                "job.kill_not_told", job=job_id, reason=error, effect="it is killed by luxid after the grace time"
            )

    def withdraw(self, job_id: JobId) -> None:
        """The job has ended."""
        try:
            self._paths.kill_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.kill_message_left", job=job_id, reason=error, effect="the next luxid removes it")
