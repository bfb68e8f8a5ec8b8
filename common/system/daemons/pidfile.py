"""Pid files: one daemon of a kind in an installation.

The file is held with a POSIX write lock, as by Ganeti's daemons, so the two refuse each other.
That lock is lost when the process closes any other descriptor of the file: the holder must not
open its own pid file. The presence of the file proves nothing; only the lock does.

Source: wconfd.md 1.1.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

from common.errors import Conflict


class PidFile:
    """A pid file held by this process."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._pid = os.getpid()

    @classmethod
    def take(cls, path: Path) -> Self:
        """Lock the file and write our pid and a newline to it, mode 0600.

        Raises:
            Conflict: another process holds it; the message names its pid.
            OSError: the file cannot be written.
        """
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if _lock(path, fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                    return cls(path, fd)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def keep_over_exec(self) -> None:
        """Keep the lock when this process executes another program, which may `take` the file again."""
        os.set_inheritable(self._fd, True)

    def release(self) -> None:
        """Delete the file and release it; harmless when repeated, and in a forked child."""
        if self._fd < 0 or self._pid != os.getpid():
            return
        # deleted while still locked: a process that opened it before notices that in `_lock`
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1


def _lock(path: Path, fd: int) -> bool:
    """Lock the file; return False if its last holder deleted it meanwhile, and the caller must try again."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise Conflict(
            f"already running with pid {pid}: it holds '{path}'; stop it first, or choose another root", pid=pid
        ) from None
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False
