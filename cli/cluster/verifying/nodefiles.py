"""Faults in the files of an installation, as far as the calling user may read them.

Source: luxid.md 3; wconfd.md 1.1, 3.2, 6.1.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from common.daemons import Feature, Place, start_order
from common.errors import GantryError
from common.paths import Paths
from common.places.queuepaths import QUEUE_VERSION
from protocol.dial import dial

# bytes of the largest job that luxid accepts, with its log; the settings can raise it (`max_job_bytes`)
JOB_BYTES: Final = 2 * 2**20
# files of one job: job file, log, output, lock and messages, each with a temporary one
FILES: Final = 16


def check_files(paths: Paths, *, place: Place = Place.MASTER, has_web: bool = False) -> Mapping[str, list[str]]:
    """Return the problems by name of the check; an empty list: none were found.

    Args:
        place: of this node; it tells which daemons are to run.
        has_web: whether rapid is to run.
    """
    sockets = partial(_sockets, place=place, has_web=has_web)
    checks: Mapping[str, Callable[[Paths], Iterator[str]]] = {**_CHECKS, "sockets": sockets}
    return {name: list(_tolerant(check, paths)) for name, check in checks.items()}


def _tolerant(check: Callable[[Paths], Iterator[str]], paths: Paths) -> Iterator[str]:
    try:
        yield from check(paths)
    except OSError as error:
        place = f"'{error.filename}': " if error.filename else ""
        yield f"{place}{(error.strerror or str(error)).lower()}"


def _config(paths: Paths) -> Iterator[str]:
    # imported late: it is large, and only this command needs it
    from common.objects.codec import decode_config

    try:
        decode_config(orjson.loads(paths.config_data.read_bytes()))
    except (orjson.JSONDecodeError, GantryError) as error:
        yield f"'{paths.config_data}': {error}"


def _locks(paths: Paths) -> Iterator[str]:
    # the file is created when the first lock is taken
    if paths.locks_data.exists():
        yield from _json(paths.locks_data)


def _json(path: Path) -> Iterator[str]:
    try:
        orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        yield f"'{path}': not JSON: {error}"


def _queue(paths: Paths) -> Iterator[str]:
    # a damaged file may have any bytes
    version = paths.version_file.read_text(errors="replace").strip()
    if version != str(QUEUE_VERSION):
        yield f"'{paths.version_file}': the queue has version {version!r:.20}, expected {QUEUE_VERSION}"
    serial = paths.serial_file.read_text(errors="replace").strip()
    if not (serial.isascii() and serial.isdigit()):
        yield f"'{paths.serial_file}': expected the last job id, got {serial!r:.20}"
    damaged = sorted(entry.name for entry in paths.damaged.iterdir()) if paths.damaged.is_dir() else []
    if damaged:
        yield f"'{paths.damaged}' holds job files that could not be read: {', '.join(damaged[:5])}"


def _sockets(paths: Paths, *, place: Place = Place.MASTER, has_web: bool = False) -> Iterator[str]:
    # in the order of stopping: each daemon before those that it needs
    for daemon in reversed(start_order(place, features=[Feature.HTTP] if has_web else [])):
        if daemon.socket is None:
            continue
        try:
            dial(paths.socket(daemon.name), daemon.name).close()
        except GantryError as error:
            yield error.message


def _livelocks(paths: Paths) -> Iterator[str]:
    for folder in (paths.livelocks, paths.sockets):
        mode = folder.stat().st_mode
        if not stat.S_ISDIR(mode):
            yield f"'{folder}' is not a folder"
        elif mode & stat.S_IWOTH:
            yield f"'{folder}' can be written by everybody; take that away with: chmod o-w {folder}"
        elif not os.access(folder, os.R_OK | os.X_OK):
            yield f"'{folder}' cannot be read by this user"


def _disk(paths: Paths) -> Iterator[str]:
    for folder in (paths.data, paths.queue):
        # a folder on a file system of its own is checked separately
        if folder == paths.data or folder.stat().st_dev != paths.data.stat().st_dev:
            yield from room_problems(folder, os.statvfs(folder), _needed_bytes(paths))


def _needed_bytes(paths: Paths) -> int:
    """Bytes of the largest change: a changed file is written in full beside the old one."""
    files = (paths.config_data, paths.locks_data)
    return JOB_BYTES + sum(path.stat().st_size for path in files if path.exists())


def room_problems(folder: Path, room: os.statvfs_result, needed: int) -> Iterator[str]:
    """Tell what keeps the daemons from writing to a folder.

    Args: needed: bytes of the largest write.
    """
    free = room.f_bavail * room.f_frsize
    if room.f_flag & os.ST_RDONLY:
        yield f"'{folder}' is on a disk that is read-only; nothing can be submitted, and no job can end"
    elif free < needed:
        yield f"'{folder}' has {free} bytes free, and a write may need {needed}; make room, or jobs wait for it"
    # some file systems do not count files
    if room.f_files and room.f_favail < FILES:
        yield f"'{folder}' has room for {room.f_favail} more files, and {FILES} may be needed; remove some"


_CHECKS: Final[Mapping[str, Callable[[Paths], Iterator[str]]]] = {
    "config.data": _config,
    "locks.data": _locks,
    "queue": _queue,
    "sockets": _sockets,
    "livelocks": _livelocks,
    "disk": _disk,
}
