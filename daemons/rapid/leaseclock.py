"""Whether the mastership of this node may have ended since one has looked, where it is held under a lease.

Source: DESIGN section 14.
"""

import contextlib
import os
from pathlib import Path

import trio

from common.lease.deadline import Deadline
from common.system.clocks.boottimer import BootTimer


class LeaseClock:
    """The deadline of this node's mastership. Args: path: its file; keeperd makes a new one at each of its starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # of the file that is open; None: there is none
        self._identity: tuple[int, int] | None = None
        self._deadline: Deadline | None = None

    def stamp(self) -> object:
        """Something that differs when the deadline has passed, or counts again. Raises: OSError."""
        deadline = self._opened()
        return self._identity, deadline is None or deadline.has_passed

    async def until_passed(self) -> None:
        """Wait until the deadline has passed; return at once if there is none. Raises: OSError."""
        timer = BootTimer()
        try:
            while (deadline := self._opened()) is not None and not deadline.has_passed:
                timer.set(deadline.until_s)
                await trio.lowlevel.wait_readable(timer.fileno())
        finally:
            timer.close()

    def _opened(self) -> Deadline | None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            identity = None
        else:
            identity = (status.st_dev, status.st_ino)
        if identity != self._identity:
            self._reopen(identity)
        return self._deadline

    def _reopen(self, identity: tuple[int, int] | None) -> None:
        if self._deadline is not None:
            self._deadline.close()
        self._identity, self._deadline = identity, None
        if identity is not None:
            with contextlib.suppress(FileNotFoundError):
                self._deadline = Deadline(self._path)
