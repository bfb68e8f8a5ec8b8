"""Livelocks: files whose locks prove that a process lives.

Theory. A process creates a file, locks it, and never lets go; only the kernel releases the locks,
at the death of the process. A process that knows the path can probe the file, and no pid is involved that could be
used twice.

Two locks are needed, since each has a gap that the other covers:

* the POSIX record lock (fcntl) is the one that Ganeti's daemons take and probe. It belongs to
  the process: it is gone when the process closes ANY descriptor of the file, so opening and closing
  one's own livelock would be fatal. It is not inherited, neither by fork nor by a command.
* the flock belongs to the open file: it lasts until the last descriptor that stems from it is
  closed, in any process. The supervisor of a command has the descriptor, and so stands in for the job
  process that started it; the job's locks stay held while any process of the command still runs.

A process is alive while EITHER is held. Absence of the file proves death as well: only the holder
at its end, or a process that found it dead, removes the file.

No process may ever see a livelock unlocked. Therefore it is locked under a temporary name, which begins with
a dot, and then renamed. It is renamed rather than linked, because the kernel's "closed" event, which reports
a death, has the name of the file at its opening or last renaming. A rename would
replace a file of the same name; an flock on the folder, which every creator takes briefly, keeps two from
choosing one name. An existing name is not used again even if its holder is dead, or the new
process would be taken for the old owner. (A crash may leave a dot file: it is dead, sweep it.)

Fork. The child of a fork is not the holder: it has no POSIX lock, and its accidental copies of the
descriptors would keep the parent alive beyond its death. They are closed in the child at once, unless one was
lent on purpose, and its set of livelocks is empty. So the child may probe its parent's livelock like any
other: the danger above concerns only a process and its own POSIX locks. A livelock is created after the last fork.

Source: DESIGN section 5; wconfd.md 3.2.
"""

import contextlib
import enum
import errno
import fcntl
import os
import re
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from common.system.shortages import PASSING

# At the death of a holder the kernel first reports the "closed" event and then drops the flock,
# some instructions later: a process that probes on that event and finds it alive probes again after these pauses.
PROBE_AGAIN_AFTER_S: Final = (0.001, 0.005, 0.02, 0.1)

_PROOFS_OF_ABSENCE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
# struct flock of 64-bit Linux: type, whence, start, length, pid
_FLOCK: Final = struct.Struct("@hhqqi")
# as the process of a job names its own
_OF_JOB: Final = re.compile(r"job_(\d+)_(\d+)", re.ASCII)
# errors of a probe that could not be made; they are temporary. EAGAIN is none: it tells that somebody has the lock
_NO_PROOFS: Final = (PASSING - {errno.EAGAIN}) | {errno.ENOLCK}


class Life(enum.Enum):
    """The result of a probe of a livelock."""

    ALIVE = "alive"
    DEAD = "dead"
    # the probe failed (no descriptors, no memory, a disk error): probe again
    UNKNOWN = "unknown"


class Livelock:
    """A livelock held by this process.

    The descriptor is closed on exec; `lent` lets a child stand in for this process.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._pid = os.getpid()
        # whether a child that is forked now keeps the descriptor
        self._is_lent = False

    @classmethod
    def create(cls, folder: Path, prefix: str) -> Self:
        """Create and lock `<folder>/<prefix>_<nanoseconds since 1970>`, mode 0600.

        No name is used twice: the death of an earlier process of a job, told late, would count for the next one.

        Raises:
            OSError: the folder is missing or not writable.
        """
        folder = Path(os.path.abspath(folder))
        with _only_creator(folder):
            temp = str(folder / f".{prefix}_{os.getpid()}_{os.urandom(4).hex()}")
            fd = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX)
                fcntl.flock(fd, fcntl.LOCK_EX)
                path = _free_name(folder, prefix)
                os.rename(temp, path)
            except BaseException:
                os.close(fd)
                with contextlib.suppress(OSError):
                    os.unlink(temp)
                raise
        livelock = cls(path, fd)
        _held[path] = livelock
        return livelock

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """Lock a file of this name, made if it is missing, for a holder that others know by the name; 0600.

        None: another process has it, or probes it. The holder may write into `fd`; this process must not open the
        file once more.

        Raises:
            OSError: it cannot be made.
        """
        name = os.path.abspath(path)
        while True:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(fd, name):
                    break
                # removed since it was opened
                os.close(fd)
            except BlockingIOError:
                os.close(fd)
                return None
            except BaseException:
                os.close(fd)
                raise
        livelock = cls(name, fd)
        _held[name] = livelock
        return livelock

    @contextlib.contextmanager
    def lent(self) -> Iterator[int]:
        """Within this context a forked child keeps the descriptor and its flock: it stands in for this process.

        A copy made here would not do: closing it would release the POSIX lock.
        """
        self._is_lent = True
        try:
            yield self.fd
        finally:
            self._is_lent = False

    def remove(self) -> None:
        """Delete the file and release both locks; harmless when repeated, and in a forked child.

        A command that still has the descriptor no longer counts, because the file is gone.
        """
        if self.fd < 0 or self._pid != os.getpid():
            return
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        _held.pop(self.path, None)
        os.close(self.fd)
        self.fd = -1


def is_alive(path: str) -> bool:
    """Whether the process that created this livelock lives, or any process that inherited it.

    Never raises. As `probe`, but a failed probe counts as alive, since a living process must not lose its locks. A
    caller that must notice a death uses `probe`, and repeats it while the result is unknown.
    """
    return probe(path) is not Life.DEAD


def probe(path: str) -> Life:
    """Probe whether the process that created this livelock lives, or any process that inherited it.

    Never raises. A missing or special file: dead. No permission to look: alive.
    A path that this process itself holds is not opened: alive.
    """
    try:
        if path in _held:
            return Life.ALIVE
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Life.DEAD
        # the same file under another name (a symbolic link somewhere in the path)
        if any(os.path.samestat(status, os.fstat(livelock.fd)) for livelock in tuple(_held.values())):
            return Life.ALIVE
        _try_lock(path)
        return Life.DEAD
    except ValueError:
        # a NUL in the path: no such file can exist
        return Life.DEAD
    except OSError as error:
        return _life_by_error(error.errno)


def process_of(path: str) -> int | None:
    """The pid of the process that has created this livelock and lives; None: there is none, or it cannot be told.

    Not for a livelock of this process. Never raises.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return record_lock_holder(fd) or None
    except OSError:
        return None
    finally:
        os.close(fd)


def record_lock_holder(fd: int) -> int | None:
    """The pid of another process that holds a POSIX lock on this open file; None: there is none; 0: it is not visible.

    Raises: OSError.
    """
    # F_GETLK only asks: taking the lock, even briefly, could make a process that starts now give up
    answer = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    kind, _, _, _, pid = _FLOCK.unpack(answer)
    # -1 or 0: a process of another pid namespace
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def livelocks_of_jobs(folder: Path) -> dict[int, str]:
    """The newest livelock of each job that has one, by the job's id; its process may be dead. Raises: OSError."""
    found = [match for name in os.listdir(folder) if (match := _OF_JOB.fullmatch(name))]
    found.sort(key=lambda match: int(match[2]))
    return {int(match[1]): f"{folder}/{match[0]}" for match in found}


def _life_by_error(number: int | None) -> Life:
    if number in _PROOFS_OF_ABSENCE:
        return Life.DEAD
    return Life.UNKNOWN if number in _NO_PROOFS else Life.ALIVE


def _try_lock(path: str) -> None:
    """Raises: OSError: a process holds it, or it cannot be tried."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # shared, so that two simultaneous probes do not take each other for the holder
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(fd)


def _is_at(fd: int, path: str) -> bool:
    """Whether this open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _only_creator(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _free_name(folder: Path, prefix: str) -> str:
    instant = time.time_ns()
    while os.path.lexists(path := f"{folder}/{prefix}_{instant}"):
        instant += 1
    return path


# path -> livelock held by this process
_held: dict[str, Livelock] = {}


def _forget_in_child() -> None:
    for livelock in _held.values():
        if not livelock._is_lent:
            with contextlib.suppress(OSError):
                os.close(livelock.fd)
        livelock.fd = -1
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
