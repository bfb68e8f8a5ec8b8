"""Start threads, where the system may refuse one.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

import errno
import threading
from typing import Final

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
