"""The kernel's timers that are descriptors, which Python has not before 3.13."""

import ctypes
import os
from typing import Final

# TFD_TIMER_ABSTIME
ABSOLUTE: Final = 1
# TFD_TIMER_CANCEL_ON_SET: a timer of the wall clock ends, with ECANCELED, when that is set
CANCEL_ON_SET: Final = 2
# the kernel takes 0 as no time at all
NEVER_NS: Final = 0
SOONEST_NS: Final = 1
_NS: Final = 1_000_000_000
_libc: Final = ctypes.CDLL(None, use_errno=True)


class _TimerSpec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("at_s", ctypes.c_long),
        ("at_ns", ctypes.c_long),
    )


def create_timer(clock: int, *, blocking: bool = False) -> int:
    """A descriptor, not inherited. Raises: OSError: none is left."""
    # TFD_CLOEXEC and TFD_NONBLOCK are the flags of open
    return _checked(_libc.timerfd_create(clock, os.O_CLOEXEC | (0 if blocking else os.O_NONBLOCK)))


def set_timer(fd: int, at_ns: int, flags: int) -> None:
    """Let the descriptor become readable at an instant, or never. Raises: OSError."""
    spec = _TimerSpec(0, 0, at_ns // _NS, at_ns % _NS)
    _checked(_libc.timerfd_settime(fd, flags, ctypes.byref(spec), None))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
