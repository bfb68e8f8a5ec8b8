"""Pauses between attempts whose success no event reports: short at first, then longer."""

from collections.abc import Iterator
from typing import Final

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


def retry_pauses() -> Iterator[float]:
    """Seconds to wait before each further attempt: they double up to the longest pause, and never end."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
