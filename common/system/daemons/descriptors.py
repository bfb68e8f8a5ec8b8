"""The number of descriptors of a daemon.

Systems give a process 1,024 descriptors at first, and let it raise the limit itself, which a daemon does.
`protocol.serving.server` decides how many of them callers get, so that the rest is left for files.
Programs that a daemon starts get the original limit, because some of them use select(), which cannot handle numbers
above 1,023. (The fork server does not raise its limit: its children would inherit it.)

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

import contextlib
import resource
from typing import Final

# default maximum of Linux (fs.nr_open); a limit may also be infinite
_MOST: Final = 2**20

# soft limit before it was raised; None: it was not raised
_given: int | None = None


def raise_limit() -> int:
    """Raise the limit of descriptors as far as allowed; return the limit."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if 0 <= hard <= _MOST else _MOST
    if 0 <= soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            _given = soft
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def take_back_limit(pid: int) -> None:
    """Set a child's limit of descriptors back to the original limit of this process."""
    if _given is None:
        return
    # the child may have ended
    with contextlib.suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_given, hard))
