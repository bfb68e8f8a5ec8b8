"""Processes that an opcode left running under the job's locks.

Source: DESIGN sections 5, 13 and 16.
"""

from collections.abc import Callable
from typing import Protocol

from common.errors import JobCanceled
from common.system.signals import ProcessSignals


class Left(Protocol):
    """What an opcode left, on this machine (`common.commands.supervisor.KeptProcesses`) or on a node."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs any more, as far as is known without a wait."""

    def wait(self) -> None:
        """Wait until it is gone, or a signal comes. Raises: GantryError: it is not waited for any longer."""

    def stop(self) -> None:
        """Request its end."""

    def close(self) -> None: ...


class LeftoverWait:
    """The processes that the last opcode left, if it left any: the next one waits for their end."""

    def __init__(self, signals: ProcessSignals) -> None:
        self._signals = signals
        self._left: Left | None = None

    def keep(self, left: Left | None) -> None:
        """Take over what an opcode has left; None: nothing."""
        self._left = left

    @property
    def is_any(self) -> bool:
        """Whether one of them still runs."""
        return self._left is not None and not self._left.is_gone

    def look(self) -> bool:
        """Return `is_any`; if none runs any more, forget them."""
        if self._left is not None and self._left.is_gone:
            self._let_go(self._left)
        return self._left is not None

    def wait(self, tell: Callable[[], None]) -> bool:
        """Wait for their end; return false if nothing was left.

        Args:
            tell: called before a wait that lasts.
        Raises: JobCanceled: the job is cancelled meanwhile. A kill is passed on to the processes.
            GantryError: they run on a node that is silent for too long.
        """
        left = self._left
        if left is None:
            return False
        if not left.is_gone:
            tell()
        while not left.is_gone:
            is_cancel_asked = self._signals.cancel_asked
            if self._signals.kill_asked:
                left.stop()
            elif is_cancel_asked:
                raise JobCanceled
            left.wait()
        self._let_go(left)
        return True

    def _let_go(self, left: Left) -> None:
        left.close()
        self._left = None
