"""A limit on the time that a program waits, whatever it waits for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeOver(Exception):
    """Raised at the point where the program waits when its time is over."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Limit the body to this time; None: no limit. Raises: TimeOver: it took longer."""
    if seconds is None:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeOver

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
