"""The files that make a folder a queue: its lock, its version and its serial.

Source: luxid.md 3.
"""

import fcntl
import os
import time
from typing import Final

from common.durable.atomicfile import write_file
from common.errors import Conflict, DamagedFile
from common.ids import JobId
from common.paths import QUEUE_VERSION, Paths

# seconds for a change of the node daemon to end, and between two looks
_CHANGE_S: Final = 20.0
_PAUSE_S: Final = 0.02


def take_lock(paths: Paths) -> int:
    """Take the lock of the queue; return its descriptor.

    The node daemon of this node has an flock on the file while it changes the queue, and asks after that for our lock.
    So when we have ours, one more look at the flock suffices: nothing is changed behind us from then on.

    Raises: Conflict: another queue daemon has it, or the node daemon does not end a change. OSError.
    """
    fd = _take_record_lock(paths)
    try:
        _until_node_daemon_ends(paths, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _take_record_lock(paths: Paths) -> int:
    while True:
        fd = os.open(paths.queue_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # false if its last holder deleted it between our open and our lock: then try the new file
            if os.path.samestat(os.fstat(fd), os.stat(paths.queue_lock)):
                return fd
        except (BlockingIOError, PermissionError):
            os.close(fd)
            raise Conflict(
                f"another queue daemon holds '{paths.queue_lock}'; stop it first, or choose another root"
            ) from None
        except FileNotFoundError:
            pass
        os.close(fd)


def _until_node_daemon_ends(paths: Paths, fd: int) -> None:
    deadline = time.monotonic() + _CHANGE_S
    while True:
        try:
            # on this descriptor: to open the file once more, and to close it, would drop our own lock
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                text = f"a process, the node daemon perhaps, has held '{paths.queue_lock}' by flock for {_CHANGE_S:g} s"
                raise Conflict(f"{text}; find it with: fuser '{paths.queue_lock}'") from None
        else:
            fcntl.flock(fd, fcntl.LOCK_UN)
            return
        time.sleep(_PAUSE_S)


def check_version(paths: Paths) -> None:
    """Make a queue of our version where there is none. Raises: Conflict: it has another version. OSError."""
    try:
        text = paths.version_file.read_text().strip()
    except FileNotFoundError:
        write_file(paths.version_file, f"{QUEUE_VERSION}\n".encode())
        return
    if text != str(QUEUE_VERSION):
        raise Conflict(f"'{paths.version_file}' says {text!r}; this program reads queues of version {QUEUE_VERSION}")


def read_serial(paths: Paths) -> JobId | None:
    """Return the last id used; None: there is no such file. Raises: DamagedFile: it is not a number. OSError."""
    try:
        text = paths.serial_file.read_text().strip()
    except FileNotFoundError:
        return None
    if not (text.isascii() and text.isdigit()):
        raise DamagedFile(
            f"'{paths.serial_file}' is not a number but {text!r:.40}; write the highest job id ever used into it",
            file=str(paths.serial_file),
        )
    return JobId(int(text))
