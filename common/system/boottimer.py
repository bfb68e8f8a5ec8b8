"""A timer of the kernel by CLOCK_BOOTTIME, which runs on while the machine sleeps; a descriptor.

Python has none before 3.13, and its sleeps stand still while the machine does.

Source: lease.md 7 and 8.
"""

import contextlib
import ctypes
import math
import os
import time
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
# TFD_CLOEXEC and TFD_NONBLOCK are the flags of open; TFD_TIMER_ABSTIME
_ABSOLUTE: Final = 1
_NS: Final = 1_000_000_000
# the kernel takes 0 as no time at all
_NEVER_NS: Final = 0
_SOONEST_NS: Final = 1
_COUNT_BYTES: Final = 8


class _TimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


class BootTimer:
    """Readable once its time has come, until it is set anew. Raises: OSError: no descriptor is left."""

    def __init__(self, *, blocking: bool = False) -> None:
        flags = os.O_CLOEXEC | (0 if blocking else os.O_NONBLOCK)
        self._fd = _checked(_libc.timerfd_create(time.CLOCK_BOOTTIME, flags))

    def fileno(self) -> int:
        return self._fd

    def set(self, at_s: float) -> None:
        """Args: at_s: an instant by CLOCK_BOOTTIME; one that has passed is now, `inf` is never."""
        at = _NEVER_NS if at_s == math.inf else max(int(at_s * _NS), _SOONEST_NS)
        spec = _TimerSpec(0, 0, at // _NS, at % _NS)
        _checked(_libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None))

    def wait(self) -> None:
        """Wait until its time has come, in a thread of its own; of a blocking timer."""
        os.read(self._fd, _COUNT_BYTES)

    def drain(self) -> None:
        """Make it unreadable until it is set anew."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, _COUNT_BYTES)

    def close(self) -> None:
        os.close(self._fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
