"""The end of a program, and the processes that it leaves running under the job's locks.

Source: DESIGN sections 5 and 16.
"""

import os
import signal
from collections.abc import Mapping

import attrs

from common.commands.supervisor import Supervisor


@attrs.frozen
class Leash:
    """Processes that a program left running under the job's locks."""

    _supervisor: Supervisor

    @property
    def fd(self) -> int:
        """A descriptor that is readable when none of them is left."""
        return self._supervisor.status

    def stop(self) -> None:
        """Request their end."""
        self._supervisor.stop()

    def close(self) -> None:
        os.close(self._supervisor.status)
        self._supervisor.reap()


@attrs.frozen
class ProgramEnd:
    """The end of a program."""

    # exit code as in `subprocess`: negative for a signal
    returncode: int
    timed_out: bool
    duration_s: float
    # whether the job was killed while it ran
    was_killed: bool
    # usage as in `usage_so_far`
    usage: Mapping[str, object]
    # number of its processes that the kernel killed for memory
    oom_kills: int
    # processes left under the locks; None: there are none, or they do not matter; the receiver closes it
    leash: Leash | None

    @property
    def exit_code(self) -> int | None:
        return self.returncode if self.returncode >= 0 else None

    @property
    def signal_name(self) -> str | None:
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"SIG{-self.returncode}"
