"""Whether this machine, or container, is being shut down or restarted.

Theory. At the very end of a shutdown, when all services are stopped, systemd's first process becomes another program,
which sends SIGTERM to every process that is left, and SIGKILL to those that are still there after a pause (90 s by
default). So a process that gets SIGTERM then is not meant by anybody who wants its work to end, and holds up the
machine as long as it stays. Who sent a signal is not told to a handler of Python; the name of the first process is.
"""

from pathlib import Path
from typing import Final

_FIRST_PROCESS: Final = Path("/proc/1/comm")
# the name of `systemd-shutdown`, of which the kernel keeps 15 characters
_SHUTDOWN: Final = "systemd-shutdow"
SHUT_DOWN_TEXT: Final = "the machine was shut down while the job ran"


def is_shutting_down() -> bool:
    """Whether all that is left on the machine is being ended; false where that cannot be known. Costs one read."""
    try:
        return _FIRST_PROCESS.read_text().rstrip("\n") == _SHUTDOWN
    except (OSError, UnicodeDecodeError):
        return False
