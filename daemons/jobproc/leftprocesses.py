"""Processes that an opcode left running under the job's locks; they are known by a leash (see `programend`).

Source: DESIGN sections 5 and 16.
"""

from collections.abc import Callable

from common.commands.programend import Leash
from common.errors import JobCanceled
from common.system.signals import ProcessSignals


class LeftProcesses:
    """The processes that the last opcode left, if it left any: the next one waits for their end."""

    def __init__(self, signals: ProcessSignals) -> None:
        self._signals = signals
        self._leash: Leash | None = None

    def keep(self, leash: Leash | None) -> None:
        """Take over what an opcode has left; None: nothing."""
        self._leash = leash

    @property
    def is_any(self) -> bool:
        """Whether one of them still runs."""
        return self._leash is not None and not self._is_slack(self._leash)

    def look(self) -> bool:
        """Return `is_any`; if none runs any more, close the leash."""
        if self._leash is not None and self._is_slack(self._leash):
            self._let_go(self._leash)
        return self._leash is not None

    def wait(self, tell: Callable[[], None]) -> bool:
        """Wait for their end; return false if nothing was left.

        Args:
            tell: called before a wait that lasts.
        Raises: JobCanceled: the job is cancelled meanwhile. A kill is passed on to the processes.
        """
        leash = self._leash
        if leash is None:
            return False
        if not self._is_slack(leash):
            tell()
        while not self._is_slack(leash):
            is_cancel_asked = self._signals.cancel_asked
            if self._signals.kill_asked:
                leash.stop()
            elif is_cancel_asked:
                raise JobCanceled
            self._signals.wait(None, leash.fd)
        self._let_go(leash)
        return True

    def _let_go(self, leash: Leash) -> None:
        leash.close()
        self._leash = None

    def _is_slack(self, leash: Leash) -> bool:
        return bool(self._signals.wait(0, leash.fd))
