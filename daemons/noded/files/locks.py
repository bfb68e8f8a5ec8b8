"""Locks on files that other programs take too: flock, waited for with a limit.

Theory. Ganeti's node daemon takes these locks with flock, its queue daemon the queue's with a POSIX lock; the two
kinds do not see each other, and so it must stay: real daemons of Ganeti may be on either side. An flock belongs to the
open file, so each holder opens its own; threads of this process wait for each other by a lock of their own.

Whoever changes the queue here therefore takes the flock, and then asks whether a queue daemon has the POSIX lock.
Luxid takes its lock, and then waits until nobody has the flock (`luxid/files/queuefolder.py`). So each either sees the
other, or has finished before it. This process only asks for the POSIX lock, and never holds it: closing the file would
drop it.

Source: noded.md 9.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.system.daemons.running import record_lock_holder

LIMIT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.1
_GROWTH: Final = 1.2
_LONGEST_PAUSE_S: Final = 1.0
_MODE: Final = 0o640


class InUse(OSError):
    """A daemon of this node holds a file for itself."""

    def __init__(self, pid: int, path: Path) -> None:
        who = f"process {pid}" if pid else "a process"
        text = f"the queue daemon runs on this node ({who}), and it alone changes its queue; stop it first"
        super().__init__(errno.EBUSY, text, str(path))


class FileLock:
    """A lock on a file, for threads.

    Args: path: the file, made if it is missing. limit_s: time to wait for other processes.
    """

    def __init__(self, path: Path, limit_s: float = LIMIT_S) -> None:
        self._path = path
        self._limit_s = limit_s
        self._turn = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock; its open file is yielded. Raises: TimeoutError: another process has it. OSError."""
        with self._turn:
            fd = self._take(time.monotonic() + self._limit_s)
            try:
                yield fd
            finally:
                os.close(fd)

    @contextmanager
    def held_without_daemon(self) -> Iterator[None]:
        """As `held`, while no daemon has its POSIX lock on the file. Raises: InUse: one has. TimeoutError, OSError."""
        with self.held() as fd:
            if (pid := record_lock_holder(fd)) is not None:
                raise InUse(pid, self._path)
            yield

    def _take(self, deadline: float) -> int:
        """The file at the path, locked: luxid removes it when it ends, and the next one makes another."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
            try:
                self._wait(fd, deadline)
                if os.path.samestat(os.fstat(fd), os.stat(self._path)):
                    return fd
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def _wait(self, fd: int, deadline: float) -> None:
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
