"""The wall clock, and waits for its instants: also through sleeps of the machine, and when somebody sets it.

Source: DESIGN section 16; everyday.md j, "clock".
"""

import errno
import math
import os
import time
from typing import Final, Protocol

import trio

from common.system.clocks.timerfd import ABSOLUTE, CANCEL_ON_SET, NEVER_NS, SOONEST_NS, create_timer, set_timer

_NS: Final = 1_000_000_000
_COUNT_BYTES: Final = 8


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
