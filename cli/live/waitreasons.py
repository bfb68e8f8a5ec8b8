"""The reasons why watched jobs wait, asked for as often as a display needs them.

Source: DESIGN section 6, "Explain".
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from cli.connection import ask_luxid
from cli.locknames import lock_names
from common.errors import GantryError
from common.ids import JobId
from common.printable import printable
from common.words.why import in_short
from protocol.luxi.why import ExplainJobs

# The reasons why jobs wait, one line each, from luxid.


def why_waiting(job_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the reasons that will last; a job without one is left out.

    Never raises because a daemon is away: the result is empty then.
    """
    try:
        answers = ask_luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    except (GantryError, OSError):
        return {}
    now = time.time()
    told = {job_id: in_short(reasons or (), now) for job_id, reasons in zip(job_ids, answers, strict=True)}
    put_names = lock_names(told.values(), is_short=True)
    return {job_id: put_names(text) for job_id, text in told.items() if text}


WAITING: Final = ("queued", "waiting")
# seconds between requests for the reasons for waiting: usually, and while new reasons are expected: a job that has
# just begun to wait asks for its locks a moment later. Only the display depends on them
_USUAL_S: Final = 1.0
_SOON_S: Final = 0.2
# where luxid tells that reasons may have changed, only the times in the texts grow old
_HINTED_S: Final = 5.0


class WaitReasons:
    """The last known reason of each waiting job."""

    def __init__(self) -> None:
        self._reasons: Mapping[int, str] = {}
        # instant of the last request for the reasons, and of the next
        self._asked_at = 0.0
        self._ask_at = 0.0
        # seconds until the next request without a hint
        self._pause_s = _USUAL_S

    def status_changed(self) -> None:
        """The state of a job has changed: its reasons are old."""
        # a limit on the rate of requests, however many jobs change
        self._ask_at = min(self._ask_at, self._asked_at + _SOON_S)

    def hinted(self) -> None:
        """luxid tells when reasons may have changed: ask at once, and by the clock only for the times in them."""
        self._ask_at = 0.0
        self._pause_s = _HINTED_S

    def due_s(self, now: float) -> float:
        """Seconds until `update` has something to do. Args: now: on the monotonic clock."""
        return max(self._ask_at - now, 0.0)

    def update(self, now: float, waiting: Sequence[int]) -> None:
        """Ask again, if that is due and a job waits."""
        if now < self._ask_at:
            return
        self._reasons = why_waiting(waiting) if waiting else {}
        self._asked_at = now
        self._ask_at = now + (self._pause_s if all(job_id in self._reasons for job_id in waiting) else _SOON_S)

    def of(self, job_id: int) -> str:
        """The reason of a job that waits; "": none is known."""
        return printable(self._reasons.get(job_id, ""))
