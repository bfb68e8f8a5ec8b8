"""Clocks and timers of the kernel."""

import contextlib
import ctypes
import errno
import math
import os
import time
from typing import Final, Protocol

import trio

# The kernel's timers that are descriptors, which Python has not before 3.13.


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


# A timer of the kernel by CLOCK_BOOTTIME, which runs on while the machine sleeps; a descriptor.
#
# Python has none before 3.13, and its sleeps stand still while the machine does.
#
# Source: lease.md 7 and 8.


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


# The wall clock, and waits for its instants: also through sleeps of the machine, and when somebody sets it.
#
# Source: DESIGN section 16; everyday.md j, "clock".


class Clock(Protocol):
    """A clock with one alarm."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def wake_at(self, at: float | None) -> None:
        """Set the alarm to an instant, in seconds since the epoch; None: to none."""
        ...

    async def woken(self) -> None:
        """Wait until the alarm rings, or the clock was set; then the alarm is off."""
        ...

    def close(self) -> None:
        """Let go of the alarm; setting it does nothing any more."""
        ...


class WallClock:
    """The clock of this machine. Raises: OSError: no descriptor is left."""

    def __init__(self) -> None:
        self._fd = create_timer(time.CLOCK_REALTIME)
        self._at: float | None = None

    def now(self) -> float:
        return time.time()

    def wake_at(self, at: float | None) -> None:
        if at == self._at or self._fd < 0:
            return
        self._at = at
        try:
            self._set(at)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            # the clock was set since the alarm was; whoever sets it looks at the clock after that
            self._set(at)

    async def woken(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            try:
                os.read(self._fd, _COUNT_BYTES)
            except BlockingIOError:
                # it was set to a later instant
                continue
            except OSError as error:
                if error.errno != errno.ECANCELED:
                    raise
            self._at = None
            self._set(None)
            return

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _set(self, at: float | None) -> None:
        if at is None:
            set_timer(self._fd, NEVER_NS, ABSOLUTE)
        else:
            # rounded up: when it rings, `now` is not before the instant
            whole = math.floor(at)
            at_ns = whole * _NS + math.ceil((at - whole) * _NS)
            set_timer(self._fd, max(at_ns, SOONEST_NS), ABSOLUTE | CANCEL_ON_SET)
