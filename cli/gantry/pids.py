"""Find the running daemons of an installation, and wait for the end of processes.

Source: wconfd.md 1.1 (pid files).
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
from pathlib import Path
from typing import Final

import attrs

from common.paths import Paths

# struct flock of 64-bit Linux: type, whence, start, length, pid
_FLOCK: Final = struct.Struct("@hhqqi")


@attrs.frozen
class Running:
    """A process that holds its pid file."""

    pid: int
    # seconds since the epoch
    since: float


def find_running(pid_file: Path) -> Running | None:
    """Return the process that holds this pid file; None if none holds it, whatever the file contains.

    Raises: OSError: the file exists but this user may not read it.
    """
    try:
        fd = os.open(pid_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # F_GETLK only asks: taking the lock, even briefly, could make a daemon that starts now give up
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, pid = _FLOCK.unpack(answer)
        return None if kind == fcntl.F_UNLCK else Running(pid, os.fstat(fd).st_mtime)
    finally:
        os.close(fd)


def find_daemon(paths: Paths, name: str) -> Running | None:
    """Args: name: from `common.daemons`. Raises: as `find_running`."""
    return find_running(paths.pid_file(name))


def find_supervisor(paths: Paths) -> Running | None:
    """Raises: as `find_running`."""
    return find_running(paths.supervisor_pid_file)


def end_process(pid: int, timeout_s: float) -> bool:
    """Ask a process to end (SIGTERM) and wait; return whether it is gone.

    Raises: PermissionError: the process belongs to another user.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGTERM)
        return _wait_readable(fd, timeout_s)
    finally:
        os.close(fd)


def _wait_readable(fd: int, timeout_s: float) -> bool:
    # a pidfd is readable once its process has ended
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
