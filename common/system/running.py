"""Find the running daemons of an installation by the locks on their pid files.

Not for a process that holds the pid file it asks about: closing the file would release its own lock.

Source: wconfd.md 1.1 (pid files).
"""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

import attrs

from common.paths import Paths
from common.system.livelock import record_lock_holder


@attrs.frozen
class RunningDaemon:
    """A process that holds its pid file."""

    pid: int
    # seconds since the epoch
    since: float


def find_running(pid_file: Path) -> RunningDaemon | None:
    """Return the process that holds this pid file; None if none holds it, whatever the file contains.

    Raises: OSError: the file exists but this user may not read it, or it is a link: whose process holds its target?
    """
    try:
        # a pipe in its place must not block the caller
        fd = os.open(pid_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        pid = record_lock_holder(fd)
        return None if pid is None else RunningDaemon(pid, os.fstat(fd).st_mtime)
    finally:
        os.close(fd)


def find_daemon(paths: Paths, name: str) -> RunningDaemon | None:
    """Args: name: from `common.daemons`. Raises: as `find_running`."""
    return find_running(paths.pid_file(name))


def find_supervisor(paths: Paths) -> RunningDaemon | None:
    """Raises: as `find_running`."""
    return find_running(paths.supervisor_pid_file)


# Why a daemon last failed, from its log.


# bytes at the end of the log that are read
_TAIL: Final = 65_536
# the value of the reason is quoted, see `common.system.log`
_EVENT: Final = re.compile(r' daemon\.(?:ready|failed reason=(?:"((?:[^"\\]|\\.)*)"|(\S+)))$', re.MULTILINE)
_ESCAPED: Final = re.compile(r"\\(.)")


def last_failure(log: Path) -> str | None:
    """Return the reason; None: it was ready since, or its log does not tell."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _TAIL, 0))
        return failure_in(file.read().decode(errors="replace"))
    return None


def failure_in(text: str) -> str | None:
    """Return the reason of the last failure that lines of a log tell, if the daemon was not ready after it."""
    events = list(_EVENT.finditer(text))
    if not events:
        return None
    quoted, plain = events[-1].groups()
    return plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
