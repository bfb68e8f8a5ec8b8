"""Folders whose entries are durable: renames, creations and removals survive a loss of power once the folder is synced.

Theory. Every process sees a change of a folder at once, and a failed fsync takes nothing back. So that is an outcome of
its own, `NotYetDurable`, and the caller only has to repeat that fsync (`common.durable.durably`).
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from common.errors import DamagedFile

_FOLDER_MODE: Final = 0o750


class NotYetDurable(OSError):
    """The change is made and visible to all, but a loss of power may take it back: a folder could not be synced.

    The caller must neither act as if nothing had happened nor write anything again. It calls `repeat` until that
    returns, or lets `common.durable.durably` do so.
    """

    def __init__(self, error: OSError, folders: Sequence[str]) -> None:
        super().__init__(error.errno, error.strerror, folders[0])
        # folders whose fsync is missing
        self.folders = tuple(folders)

    def repeat(self) -> None:
        """Repeat the missing fsyncs once.

        Raises: NotYetDurable: an fsync failed again.
        Durability: on return the change survives a loss of power.
        """
        sync_folders(self.folders)


def sync_folders(folders: Iterable[str | Path]) -> None:
    """Make durable all renames, creations and removals in these folders so far, by any process.

    Raises: NotYetDurable: it names the failed folder and those after it.
    """
    left = [str(folder) or "." for folder in dict.fromkeys(folders)]
    try:
        while left:
            _sync_folder(left[0])
            del left[0]
    except OSError as error:
        raise NotYetDurable(error, left) from error


def make_folders(folders: Iterable[str]) -> None:
    """Make the folders (0750), and those above them, durably.

    Raises: OSError: a folder may be missing after a crash.
    """
    parents: dict[str, None] = {}
    for folder in folders:
        missing: list[str] = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        # also for an existing folder: its maker may have died before it was durable
        for path in reversed(missing or [folder]):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _FOLDER_MODE)
            parents[os.path.dirname(path)] = None
    try:
        sync_folders(parents)
    except NotYetDurable as error:
        # nothing was moved, so this is an ordinary error
        raise OSError(error.errno, error.strerror, error.filename) from error


def check_kinds(folders: Iterable[Path]) -> None:
    """Make sure that these folders hold only files and folders, or links to such.

    A folder that is missing, or that this process may not list, holds nothing.

    Whoever opens a named pipe waits without end, and a device may have no end; a backup can bring either.

    Raises: DamagedFile: one entry is neither. OSError: a folder cannot be read.
    Cost: linear in the entries; none of them is looked at but links.
    """
    for folder in folders:
        try:
            entries = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        with entries:
            for entry in entries:
                # a link that leads nowhere is no file that could be opened
                if not (entry.is_file() or entry.is_dir() or (entry.is_symlink() and not os.path.exists(entry.path))):
                    raise DamagedFile(
                        f"'{entry.path}' is neither a file nor a folder; a backup may have brought it: move it away, "
                        "and do not use what else that backup has before it was looked at",
                        path=entry.path,
                    )


@contextlib.contextmanager
def locked_folder(folder: str | Path, operation: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold a folder's own lock. Args: operation: of `flock`. Raises: OSError: it cannot be opened, or not be locked."""
    descriptor = _open_folder(folder)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def is_odd(path: str | Path) -> bool:
    """Whether something is there that is neither a file nor a folder, such as a link. Raises: OSError."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _sync_folder(folder: str) -> None:
    descriptor = _open_folder(folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_folder(folder: str | Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
