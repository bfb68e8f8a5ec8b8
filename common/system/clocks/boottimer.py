"""A timer of the kernel by CLOCK_BOOTTIME, which runs on while the machine sleeps; a descriptor.

Python has none before 3.13, and its sleeps stand still while the machine does.

Source: lease.md 7 and 8.
"""

import contextlib
import math
import os
import time
from typing import Final

from common.system.clocks.timerfd import ABSOLUTE, NEVER_NS, SOONEST_NS, create_timer, set_timer

_NS: Final = 1_000_000_000
_COUNT_BYTES: Final = 8


class BootTimer:
    """Readable once its time has come, until it is set anew. Raises: OSError: no descriptor is left."""

    def __init__(self, *, blocking: bool = False) -> None:
        self._fd = create_timer(time.CLOCK_BOOTTIME, blocking=blocking)

    def fileno(self) -> int:
        return self._fd

    def set(self, at_s: float) -> None:
        """Args: at_s: an instant by CLOCK_BOOTTIME; one that has passed is now, `inf` is never."""
        set_timer(self._fd, NEVER_NS if at_s == math.inf else max(int(at_s * _NS), SOONEST_NS), ABSOLUTE)

    def wait(self) -> None:
        """Wait until its time has come, in a thread of its own; of a blocking timer."""
        os.read(self._fd, _COUNT_BYTES)

    def drain(self) -> None:
        """Make it unreadable until it is set anew."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, _COUNT_BYTES)

    def close(self) -> None:
        os.close(self._fd)
