"""Stamps of files: another file was put in place, or its content was changed, when they differ."""

import os
from pathlib import Path
from typing import Final

# device, inode, time of change in nanoseconds, and size
Stamp = tuple[int, int, int, int]
MISSING: Final[Stamp] = (0, 0, 0, 0)


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def stamp_at(path: Path) -> Stamp:
    """The stamp of the file there; `MISSING`: there is none. Raises: OSError."""
    try:
        return stamp_of(os.stat(path))
    except FileNotFoundError:
        return MISSING


def stamp_if_known(path: Path | str) -> Stamp | None:
    """The stamp of the file there; None: there is none, or nothing can be told of it now."""
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return None
