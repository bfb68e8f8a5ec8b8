"""A daemon's socket file: it replaces a stale one, and is removed only by its owner."""

import os
import socket
import stat
from pathlib import Path

import attrs

from common.errors import Conflict, Denied, Unavailable
from protocol.dial import dial, reachable


@attrs.frozen
class Identity:
    """The identity of the file that a path names at a moment."""

    device: int
    inode: int


def listen(path: Path, mode: int, backlog: int) -> socket.socket:
    """Make a non-blocking socket that listens at `path`; the caller closes it.

    Args:
        mode: mode of the socket file.
    Raises:
        Conflict: another daemon listens there, or the file there is not a socket.
        Unavailable: the socket cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        _clear(path)
        with reachable(path) as address:
            listener.bind(address)
        # clients cannot connect before listen(), so a wider mode never takes effect
        path.chmod(mode)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno or 0).lower()
        raise Unavailable(
            f"cannot listen at {path}: {reason}; does the folder exist, and may we write there?"
        ) from error
    except BaseException:
        listener.close()
        raise
    return listener


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file; None: there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return Identity(status.st_dev, status.st_ino)


def remove(path: Path, identity: Identity | None) -> None:
    """Remove the socket file, unless a successor has replaced it."""
    if identity is not None and identity_of(path) == identity:
        path.unlink()


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Conflict(f"{path} is not a socket; move it away")
    try:
        dial(path, "the other daemon").close()
    except (Unavailable, Denied):
        path.unlink(missing_ok=True)
    else:
        raise Conflict(f"another daemon answers at {path}; stop it first")
