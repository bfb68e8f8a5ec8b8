"""Starting threads, where the system may refuse one.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

import errno
import threading
from typing import Final

# CPython's words, which have no class of their own
_REFUSED: Final = "can't start new thread"


class NoThread(OSError):
    """The system starts no thread just now; nothing was done."""

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
    """Whether this is how Python says that a thread could not be started."""
    return _REFUSED in str(error)
