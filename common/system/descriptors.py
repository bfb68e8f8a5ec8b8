"""How many descriptors a daemon has.

Systems give a process 1,024 descriptors at first, and let it take more by itself: a daemon takes what it may have.
How many of them callers get, so that the rest is left to files, is said in `protocol.server`.

What a daemon starts itself gets the limit that the daemon was given: some programs use select(), which knows no number
beyond 1,023. (The fork server takes nothing more: its children would inherit it.)

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

import contextlib
import resource
from typing import Final

# what Linux allows without being told otherwise (fs.nr_open); a limit may also be infinite
_MOST: Final = 2**20

# the soft limit before it was raised; None: it was not
_given: int | None = None


def raise_limit() -> int:
    """Let this process have as many descriptors as it may; returns how many."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if 0 <= hard <= _MOST else _MOST
    if 0 <= soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            _given = soft
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def take_back_limit(pid: int) -> None:
    """Let a child have as many descriptors as this process was given, and not what it has taken since."""
    if _given is None:
        return
    # it may be gone by now
    with contextlib.suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_given, hard))
