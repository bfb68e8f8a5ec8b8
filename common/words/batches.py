"""A batch as a whole, in words: its state and its counts.

Source: everyday.md sections d, j.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from common.queue.jobs import FINAL_NAMES

ACTIVE: Final = "active"
# which end of a job makes the end of its batch, the worst first
_ENDS: Final = ("error", "canceled", "success")
# state of a job -> word for its count, in the order told
_WORDS: Final = {
    "success": "ok",
    "error": "failed",
    "canceled": "canceled",
    "running": "running",
    "canceling": "ending",
    "waiting": "waiting",
    "queued": "queued",
}


def batch_counts(statuses: Iterable[str]) -> Counter[str]:
    """State -> number of jobs."""
    return Counter(statuses)


def batch_state(counts: Mapping[str, int]) -> str:
    """`active` if a job has not ended; else the worst end of its jobs: `error`, `canceled` or `success`."""
    if any(count and status not in FINAL_NAMES for status, count in counts.items()):
        return ACTIVE
    return next((status for status in _ENDS if counts.get(status)), ACTIVE)


def counts_text(counts: Mapping[str, int]) -> str:
    """`97 ok, 2 failed, 1 running`."""
    return ", ".join(f"{counts[status]} {word}" for status, word in _WORDS.items() if counts.get(status))
