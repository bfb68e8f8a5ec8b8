"""What the system refuses for a moment: which errors pass, and how to try again."""

import errno
import threading
from collections.abc import Iterator
from typing import Final

# Errors of the kernel that pass: they say nothing about what was asked for, and the same call may succeed later.
#
# Source: DESIGN section 11.


# want of descriptors or memory, in this process or on its machine
SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# beside them what a disk, a file server, or a signal causes
PASSING: Final = SHORTAGES | {errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE}


def is_passing(error: Exception) -> bool:
    """Whether the error says nothing about what was asked for."""
    return isinstance(error, OSError) and error.errno in PASSING


# Pauses between attempts whose success no event reports: short at first, then longer.


FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


def retry_pauses() -> Iterator[float]:
    """Seconds to wait before each further attempt: they double up to the longest pause, and never end."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


# Start threads, where the system may refuse one.
#
# Source: DESIGN section 11, "an error of the disk or of descriptors".


# text of CPython's error, which has no class of its own
_REFUSED: Final = "can't start new thread"


class NoThread(OSError):
    """The system cannot start a thread at the moment; nothing was done."""

    def __init__(self) -> None:
        super().__init__(
            errno.EAGAIN,
            "no thread can be started, as the limit of processes (ulimit -u, TasksMax) or of memory is reached",
        )

    def __str__(self) -> str:
        return str(self.strerror)


def start_thread(thread: threading.Thread) -> None:
    """Start it. Raises: NoThread."""
    try:
        thread.start()
    except RuntimeError as error:
        if not is_refused(error):
            raise
        raise NoThread from error


def is_refused(error: RuntimeError) -> bool:
    """Whether this is Python's error for a thread that could not be started."""
    return _REFUSED in str(error)
