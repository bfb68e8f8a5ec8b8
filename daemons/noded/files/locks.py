"""Locks on files that other programs take too: flock, waited for with a limit.

Theory. Ganeti's node daemon takes these locks with flock, its queue daemon the queue's with a POSIX lock; the two
kinds do not see each other, and so it must stay. An flock belongs to the open file, so each holder opens its own;
threads of this process wait for each other by a lock of their own.

Source: noded.md 9.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LIMIT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.1
_GROWTH: Final = 1.2
_LONGEST_PAUSE_S: Final = 1.0
_MODE: Final = 0o640


class FileLock:
    """A lock on a file, for threads.

    Args: path: the file, made if it is missing. limit_s: time to wait for other processes.
    """

    def __init__(self, path: Path, limit_s: float = LIMIT_S) -> None:
        self._path = path
        self._limit_s = limit_s
        self._turn = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises: TimeoutError: another process has it. OSError."""
        with self._turn:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            try:
                self._wait(fd)
                yield
            finally:
                os.close(fd)

    def _wait(self, fd: int) -> None:
        deadline = time.monotonic() + self._limit_s
        pause_s = _FIRST_PAUSE_S
        while not lock_now(fd):
            if time.monotonic() + pause_s > deadline:
                text = f"another process has held this lock for {self._limit_s:g} s"
                raise TimeoutError(None, text, str(self._path))
            # in a thread of its own; the kernel has no wait for an flock with a limit, and tells nobody of its end
            time.sleep(pause_s)
            pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def lock_now(fd: int) -> bool:
    """Lock an open file exclusively; return whether that was possible without waiting. Raises: OSError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
