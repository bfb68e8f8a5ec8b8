"""Job files that cannot be read at the moment: their jobs are held, the log says so, and reading is tried again.

Theory. A reading error (no descriptors, no memory, a faulty disk) says nothing about a job. A caller that needs
the content waits here until it could be read, with pauses that double: no event reports the end of an error.
A missing or damaged file is a result, and decides.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from common.errors import Unavailable
from common.ids import JobId
from common.system.log import get_log
from common.system.retrypauses import retry_pauses

T = TypeVar("T")
_log: Final = get_log(__name__)


class UnreadFiles:
    """Waits for files to become readable, and knows those that are not."""

    def __init__(self) -> None:
        # job -> reason, while its file is waited for
        self._reasons: dict[JobId, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, job_id: JobId) -> str | None:
        """The reason why the job's file cannot be read; None: it is not waited for."""
        return self._reasons.get(job_id)

    async def until_read(self, job_id: JobId, read: Callable[[JobId], T]) -> T:
        """Return the result of `read`, as soon as it no longer raises Unavailable.

        Raises: all other exceptions of `read`.
        Cancellation: the attempt leaves no trace.
        """
        try:
            for pause_s in retry_pauses():
                try:
                    return read(job_id)
                except Unavailable as error:
                    self._reasons[job_id] = error.message
                    effect = "the job is held until it can be read"
                    _log.error("job.unreadable", job=job_id, reason=error, effect=effect, retry_s=pause_s)
                await trio.sleep(pause_s)
        finally:
            self._reasons.pop(job_id, None)
        raise AssertionError("pauses never end")
