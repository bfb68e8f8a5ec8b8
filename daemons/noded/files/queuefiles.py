"""The job queue of this node: a copy of the master's, or, on the master, the queue itself.

Every change is made under the queue's lock, and is durable when it returns. Updates that arrive together share their
fsyncs. The functions that are not async are for threads.

While a queue daemon runs on this node, nothing is changed: what it has read it answers from memory, and a job that is
removed or replaced behind it would be lost, or run twice. So each change raises `InUse` then, whoever asks for it: also
a new master's, until the old one's luxid has ended here.

Source: noded.md 6 and 9.
"""

import errno
import fcntl
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from common.durable.atomicfile import FileWrite, move_files, remove_file, remove_files, write_files
from common.durable.durably import durably
from common.durable.groupcommit import GroupCommit
from common.errors import Conflict
from common.paths import QUEUE_VERSION, Paths
from common.system.inthread import in_thread
from common.system.livelock import record_lock_holder
from daemons.noded.files.places import make_folder, owner_of_files_in, put_file

# Locks on files that other programs take too: flock, waited for with a limit.
#
# Theory. Ganeti's node daemon takes these locks with flock, its queue daemon the queue's with a POSIX lock; the two
# kinds do not see each other, and so it must stay: real daemons of Ganeti may be on either side. An flock belongs to
# the open file, so each holder opens its own; threads of this process wait for each other by a lock of their own.
#
# Whoever changes the queue here therefore takes the flock, and then asks whether a queue daemon has the POSIX lock.
# Luxid takes its lock, and then waits until nobody has the flock (`luxid/files/queuefolder.py`). So each either sees
# the other, or has finished before it. This process only asks for the POSIX lock, and never holds it: closing the file
# would drop it.
#
# Source: noded.md 9.


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


MODE: Final = 0o640
_FOLDER_MODE: Final = 0o750
_SET_ASIDE_MODE: Final = 0o700
_FIRST_SERIAL: Final = b"0\n"
# a folder of archived jobs lies one below the archive, which is in the queue
_LOCK_NAME: Final = "lock"


class QueueFileCopies:
    """The files of the queue."""

    def __init__(self, paths: Paths, lock: FileLock | None = None) -> None:
        self._paths = paths
        self._lock = lock or FileLock(paths.queue_lock)
        self._updates = GroupCommit(self._write)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write the updates; for `nursery.start`."""
        await self._updates.run(task_status=task_status)

    def begin(self) -> None:
        """Make version and serial of a new queue; none is new beside a configuration.

        There a missing serial means that it was lost: 0 instead of it would let luxid use ids again.

        Raises: Conflict: another version. OSError: also the lock.
        """
        with self._lock.held():
            try:
                text = self._paths.version_file.read_text().strip()
            except FileNotFoundError:
                text = str(QUEUE_VERSION)
                put_file(self._paths.version_file, f"{QUEUE_VERSION}\n".encode(), MODE)
            if text != str(QUEUE_VERSION):
                raise Conflict(
                    f"'{self._paths.version_file}' says {text!r:.20}; this program has version {QUEUE_VERSION}"
                )
            if not (self._paths.serial_file.exists() or self._paths.config_data.exists()):
                put_file(self._paths.serial_file, _FIRST_SERIAL, MODE)

    async def update(self, path: Path, content: bytes) -> None:
        """Replace a file. Raises: OSError: it has its old content.

        Durability: on return the new content survives a loss of power.
        """
        await self.replace([FileWrite(path, content, MODE)])

    async def replace(self, writes: Sequence[FileWrite]) -> None:
        """Replace files. Raises: OSError: each has its old content, or its new one.

        Durability: on return the new contents survive a loss of power.
        """
        await self._updates.commit(writes)

    async def remove(self, paths: Sequence[Path]) -> None:
        """Remove files, as far as they exist. Raises: OSError.

        Durability: on return the removals survive a loss of power.
        """
        await in_thread(self._remove, paths)

    async def set_aside(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Move files, as far as they exist, to a new folder, where they keep their names below that of data.

        Returns: their new places.
        Raises: OSError.

        Durability: on return the moves survive a loss of power.
        """
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        folder = self._paths.set_aside / f"jobs-{stamp}-{secrets.token_hex(3)}"
        return await in_thread(self._set_aside, paths, folder)

    def read(self, paths: Sequence[Path]) -> Sequence[bytes | None]:
        """The contents of files; None: there is none. Raises: OSError."""
        return [_content(path) for path in paths]

    def names_below(self, folder: Path) -> Sequence[str]:
        """The names of all plain files below a folder of that of data, relative to the latter. Raises: OSError."""
        found: list[str] = []
        for at, _, names in os.walk(folder, onerror=_raise):
            found += [str(Path(at, name).relative_to(self._paths.data)) for name in names]
        return found

    def names_in(self, folder: Path) -> Sequence[str]:
        """The names in a folder; a missing one has none. Raises: OSError."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    async def rename(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Move files, in order, and make the folders that are missing.

        Raises: FileNotFoundError: a source is missing; the moves before are done. OSError.
        Durability: on return, and also with a source missing, the moves that are done survive a loss of power.
        Cost: an fsync of each folder, however many files are moved.
        """
        await in_thread(self._rename, moves)

    async def purge(self) -> None:
        """Remove all files of the queue and of its archive, but the lock. Raises: OSError.

        Durability: on return the removals survive a loss of power.
        """
        await in_thread(self._purge)

    async def set_drain_flag(self, is_drained: bool) -> None:
        """Raises: OSError."""
        await in_thread(self._set_drain_flag, is_drained)

    def _write(self, writes: Sequence[FileWrite]) -> None:
        owner = owner_of_files_in(self._paths.queue)
        with self._lock.held_without_daemon():
            write_files([attrs.evolve(write, owner=owner) for write in writes])

    def _rename(self, moves: Sequence[tuple[Path, Path]]) -> None:
        with self._lock.held_without_daemon():
            missing = _first_missing(moves)
            possible = moves[:missing]
            for folder in dict.fromkeys(target.parent for _, target in possible):
                self._make_folder(folder)
            durably(lambda: _move(possible))
        if missing is not None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file to move", str(moves[missing][0]))

    def _make_folder(self, folder: Path) -> None:
        """Make a folder of archived jobs, and the archive, for the owner of the queue."""
        if folder.is_dir():
            return
        if folder.parent != self._paths.queue:
            self._make_folder(folder.parent)
        make_folder(folder, _FOLDER_MODE, owner_of_files_in(self._paths.queue))

    def _purge(self) -> None:
        with self._lock.held_without_daemon():
            folders = [self._paths.queue, self._paths.archive, *_archive_folders(self._paths.archive)]
            files = [path for folder in folders for path in _plain_files(folder)]
            durably(lambda: remove_files(files))

    def _remove(self, paths: Sequence[Path]) -> None:
        with self._lock.held_without_daemon():
            durably(lambda: remove_files(paths))

    def _set_aside(self, paths: Sequence[Path], folder: Path) -> Sequence[Path]:
        with self._lock.held_without_daemon():
            moves = [(path, folder / path.relative_to(self._paths.data)) for path in paths if os.path.lexists(path)]
            if moves:
                # for its owner alone: jobs are in it
                make_folder(self._paths.set_aside, _SET_ASIDE_MODE)
            durably(lambda: _move(moves))
        return [target for _, target in moves]

    def _set_drain_flag(self, is_drained: bool) -> None:
        with self._lock.held_without_daemon():
            if is_drained:
                put_file(self._paths.drain_file, b"", MODE)
            else:
                durably(lambda: remove_file(self._paths.drain_file))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _first_missing(moves: Sequence[tuple[Path, Path]]) -> int | None:
    """The index of the first move whose source will not be there; None: all will."""
    # places where moves of this batch put files, or take them from
    is_there: dict[Path, bool] = {}
    for index, (source, target) in enumerate(moves):
        if not is_there.get(source, os.path.lexists(source)):
            return index
        is_there[source], is_there[target] = False, True
    return None


def _move(moves: Sequence[tuple[Path, Path]]) -> None:
    move_files(moves)


def _archive_folders(archive: Path) -> Iterator[Path]:
    """The folders of archived jobs; links are left out."""
    try:
        names = os.listdir(archive)
    except FileNotFoundError:
        return
    for name in names:
        path = archive / name
        if name.isascii() and name.isdigit() and stat.S_ISDIR(path.lstat().st_mode):
            yield path


def _plain_files(folder: Path) -> Iterator[Path]:
    """The visible files in a folder that are neither links nor the lock; nothing if the folder is missing."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        path = folder / name
        if name != _LOCK_NAME and not name.startswith(".") and stat.S_ISREG(path.lstat().st_mode):
            yield path
