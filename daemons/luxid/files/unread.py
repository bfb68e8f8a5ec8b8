"""Job files that cannot be read for the moment: their jobs are held, that is told, and they are tried again.

Theory. An error of reading (no descriptors, no memory, a disk that fails) says nothing about a job. Whoever has to
know what a file says waits here until it was read, with pauses that double: no event tells that an error has passed.
That there is no file, or a damaged one, has been read, and decides.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import trio

from common.errors import Unavailable
from common.ids import JobId
from common.system.log import get_log

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0

T = TypeVar("T")
_log: Final = get_log(__name__)


class UnreadFiles:
    """Waits for files to be readable, and knows those that are not."""

    def __init__(self) -> None:
        # job -> what hinders; while somebody waits for its file
        self._reasons: dict[JobId, str] = {}

    def reason(self, job_id: JobId) -> str | None:
        """Why the job's file cannot be read; None: nobody waits for it."""
        return self._reasons.get(job_id)

    async def until_read(self, job_id: JobId, read: Callable[[JobId], T]) -> T:
        """What `read` returns, as soon as it does not raise Unavailable any more.

        Raises: whatever else `read` raises.
        Cancellation: nothing is left of the attempt.
        """
        try:
            for pause_s in pauses():
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


def pauses() -> Iterator[float]:
    """How long to wait before each next attempt, in seconds."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
