"""Files that are moved or removed, durably."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from common.durable.folders import NotYetDurable, make_folders, sync_folders


def remove_file(path: Path) -> None:
    """Remove a file; a missing file is not an error.

    Raises:
        NotYetDurable: the file is gone.
        OSError: the file is still there.
    Durability: on return the removal survives a loss of power, even if another process removed the file.
    """
    remove_files([path])


def remove_files(paths: Iterable[Path]) -> None:
    """`remove_file` for several, in order, with one fsync of each folder. Raises: as there, for the first failure."""
    folders: dict[str, None] = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        folders[os.path.dirname(path)] = None
    # a folder that is missing cannot bring a file back
    sync_folders(folder for folder in folders if os.path.isdir(folder or "."))


def move_files(moves: Sequence[tuple[Path, Path]]) -> list[Path]:
    """Rename each (source, target), and make missing folders of targets (0750).

    A new folder is durable before a file is moved into it: a file system that does not order such changes could
    lose the folder, together with the file that has left its old place.

    Returns: the sources that do not exist; the others have been moved.
    Raises:
        NotYetDurable: all moves are done.
        OSError: the moves before the failed one are done, and durable unless the folders cannot be synced either;
            the moves after it are not done.
    Durability: on return the moves survive a loss of power.
    """
    make_folders(dict.fromkeys(os.path.dirname(target) for _, target in moves))
    folders: list[str] = []
    missing: list[Path] = []
    try:
        for source, target in moves:
            if not _move(source, target):
                missing.append(source)
                continue
            folders += (os.path.dirname(target), os.path.dirname(source))
    except OSError:
        with contextlib.suppress(NotYetDurable):
            sync_folders(folders)
        raise
    sync_folders(folders)
    return missing


def _move(source: Path, target: Path) -> bool:
    """Return False if the source does not exist. Raises: OSError."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if os.path.lexists(source):
            raise
        return False
    return True
