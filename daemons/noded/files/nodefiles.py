"""Files of the configuration on this node: uploads, ssconf, the watcher's pause. For threads.

Source: noded.md 6.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from common.clusterinit import SSCONF_MODE
from common.durable.atomicfile import FileWrite, remove_file, write_files
from common.durable.durably import durably
from common.errors import Conflict, DamagedFile, InvalidRequest
from common.nodes.mastership import read_seen
from common.objects.ssconf import MAX_BYTES
from common.paths import Paths
from common.webaccess.folder import group_right
from daemons.noded.files.places import make_folder, named_owner, owner_of_files_in, put_file
from daemons.noded.files.queuefiles import FileLock, lock_now
from protocol.noded.files import FileUpload
from protocol.noded.membership import NodeProgress

_PRIVATE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o750
_PAUSE_MODE: Final = 0o644
# time for which a pause that is over stays in its file
_PAUSE_KEPT_S: Final = 3600.0


def upload(path: Path, file: FileUpload, *, makes_folder: bool = False) -> None:
    """Replace a file, with its mode, owner and times.

    Args: makes_folder: whether a missing folder is made, in one that is there.
    Raises:
        Conflict: another process holds the lock of the file that is there.
        Denied: the owner is none of ours. InvalidRequest: one time without the other.
        OSError: the file is as it was.
    Durability: on return it survives a loss of power.
    """
    if (file.atime is None) != (file.mtime is None):
        raise InvalidRequest(f"'{file.file_name}' has one time of two; send both, or none")
    if makes_folder:
        folder = path.parent
        make_folder(folder, _FOLDER_MODE, owner_of_files_in(folder.parent))
    times = None if file.atime is None or file.mtime is None else (file.atime, file.mtime)
    mode = _PRIVATE_MODE if file.mode is None else stat.S_IMODE(file.mode) & 0o777
    mode |= group_right(path.parent)
    owner = named_owner(file.uid, file.gid, path.parent)
    with _locked(path):
        durably(lambda: write_files([FileWrite(path, file.content.data, mode, owner=owner, times=times)]))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file that is there; a file that is not there cannot be locked by anybody."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        yield
        return
    try:
        if not lock_now(fd):
            raise Conflict(f"'{path}' is locked by another process; try again")
        yield
    finally:
        os.close(fd)


class SsconfFiles:
    """The files of ssconf."""

    def __init__(self, paths: Paths) -> None:
        self._data = paths.data
        self._lock = FileLock(paths.ssconf_lock)

    def write(self, contents: Mapping[Path, bytes]) -> None:
        """Replace those that differ.

        Raises: InvalidRequest: a value is too long; nothing was written. OSError: each file is old or new.
        Durability: on return they survive a loss of power.
        """
        for path, content in contents.items():
            if len(content) > MAX_BYTES:
                raise InvalidRequest(f"'{path.name}' would have {len(content)} bytes, at most {MAX_BYTES} are allowed")
        with self._lock.held():
            owner = owner_of_files_in(self._data)
            changed = [path for path, content in contents.items() if not _has(path, content)]
            durably(
                lambda: write_files([FileWrite(path, contents[path], SSCONF_MODE, owner=owner) for path in changed])
            )


def _has(path: Path, content: bytes) -> bool:
    """Whether a file of ssconf has this content already; it is durable then, since only such writes put it there."""
    try:
        return path.read_bytes() == content and stat.S_IMODE(path.lstat().st_mode) == SSCONF_MODE
    except FileNotFoundError:
        return False


def read_pause(path: Path) -> float | None:
    """Until when the watcher pauses; None: it does not. A pause that is long over is removed. Raises: OSError."""
    try:
        text = path.read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    now = time.time()
    try:
        until = float(text)
    except ValueError:
        until = 0.0
    if until < now - _PAUSE_KEPT_S or until != until:
        with contextlib.suppress(OSError):
            path.unlink()
    return until if until > now else None


def write_pause(path: Path, until: float | None) -> None:
    """Set the pause of the watcher, or end it (None). Raises: InvalidRequest: no such time. OSError."""
    if until is None:
        durably(lambda: remove_file(path))
        return
    if not 0 <= until < 2**53:
        raise InvalidRequest(f"a pause until {until!r} is not a time in seconds since 1970")
    put_file(path, f"{int(until)}\n".encode(), _PAUSE_MODE)


# How far this node's copies of queue and configuration have come.
#
# Source: DESIGN section 12.


def read_standing(paths: Paths) -> NodeProgress:
    """Raises: DamagedFile, OSError: a copy here cannot be read; one that is missing counts as 0."""
    seen = read_seen(paths.epoch_file)
    return NodeProgress(
        epoch=seen.number,
        epoch_master=seen.master,
        config_serial=_config_serial(paths.config_data),
        queue_serial=_queue_serial(paths.serial_file),
    )


def _config_serial(path: Path) -> int:
    try:
        config = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return 0
    except orjson.JSONDecodeError as error:
        raise DamagedFile(f"the copy of the configuration '{path}' is not JSON: {error}", file=str(path)) from None
    serial = config.get("serial_no") if isinstance(config, dict) else None
    if not isinstance(serial, int):
        raise DamagedFile(f"the copy of the configuration '{path}' has no serial number", file=str(path))
    return serial


def _queue_serial(path: Path) -> int:
    try:
        text = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise DamagedFile(f"'{path}' does not hold the last job id but {text!r:.20}", file=str(path))
    return int(text)
