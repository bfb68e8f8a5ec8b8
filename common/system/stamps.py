"""Stamps of files: another file was put in place, or its content was changed, when they differ."""

import os
import time
from pathlib import Path
from typing import Final

# device, inode, time of change in nanoseconds, and size
Stamp = tuple[int, int, int, int]
MISSING: Final[Stamp] = (0, 0, 0, 0)
# age from which the time of a change tells it from the next one; the kernel's clock for files ticks slowly
SETTLED_NS: Final = 50_000_000


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


def inode_stamp_at(path: Path) -> Stamp:
    """As `stamp_at`, with the time of the last change of any kind: whoever puts back the old times is noticed, too."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return MISSING
    return status.st_dev, status.st_ino, max(status.st_mtime_ns, status.st_ctime_ns), status.st_size


def is_settled(stamp: Stamp, age_ns: int = SETTLED_NS) -> bool:
    """Whether the next change will give the file another stamp."""
    # times in the future are those of a clock that was set back
    return stamp == MISSING or abs(time.time_ns() - stamp[2]) > age_ns
