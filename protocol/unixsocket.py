"""Unix sockets: connect to one by its path, and listen at one."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from common.errors import Conflict, Denied, Unavailable
from common.paths import SOCKET_PATH_MAX_BYTES
from common.system.shortages import SHORTAGES
from protocol.peer import peer_of

# Connect to a Unix socket by its path: one attempt, and error texts for users.
#
# Source: luxid.md 1.5.


FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0


def dial(path: Path, daemon: str) -> socket.socket:
    """Connect to the socket at `path`, in one attempt that never waits.

    Returns: a non-blocking socket, which the caller closes.
    Raises:
        Denied: the file's mode keeps this user out, or the listener is not the daemons' user.
        Unavailable: no process listens there, its queue of callers is full, or this process has no descriptor left; the
            caller can try again.
    """
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise _explain(path, daemon, error) from error
    try:
        sock.setblocking(False)
        with reachable(path) as address:
            sock.connect(address)
        _check_server(sock, path, daemon)
    except OSError as error:
        sock.close()
        raise _explain(path, daemon, error) from error
    except BaseException:
        sock.close()
        raise
    return sock


def is_usable(sock: socket.socket) -> bool:
    """Whether a connection with no call in progress can carry the next one.

    A daemon closes idle connections; if that is noticed before a call is sent, no harm is done. Unrequested
    bytes make a connection unusable as well.

    Args:
        sock: non-blocking.
    """
    try:
        # of the bytes below TLS, if there is any
        socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _check_server(sock: socket.socket, path: Path, daemon: str) -> None:
    """Refuse a listener that is neither root, nor our user, nor the owner of the sockets' folder.

    Another user may be able to put a socket in the daemon's place, and would then receive the daemon's messages.

    Raises: Denied. OSError: the folder cannot be inspected.
    """
    server = peer_of(sock)
    if server.uid in (0, os.geteuid()) or server.uid == path.parent.stat().st_uid:
        return
    raise Denied(
        f"{daemon} is not who listens at {path}, but user {server.uid} (pid {server.pid}); "
        f"nothing was sent; look at the folder's mode and at who could write there"
    )


def _explain(path: Path, daemon: str, error: OSError) -> Denied | Unavailable:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"this user may not connect to {daemon} at {path}; ask to be in the socket's group")
    if error.errno == errno.EAGAIN:
        return Unavailable(f"{daemon} does not answer at {path}: too many callers wait for it; try again")
    reason = os.strerror(error.errno or 0).lower()
    if error.errno in SHORTAGES:
        return Unavailable(f"{daemon} cannot be called at {path}: {reason}; try again")
    return Unavailable(
        f"{daemon} does not answer at {path}: {reason}; "
        f"is it running? start it, or name another installation with --root"
    )


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """Yield an address for `path` that fits into the kernel's 108 bytes, however deep the folder is.

    Raises: OSError: the folder cannot be opened.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def pauses() -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling up to one second, endlessly."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


# A daemon's socket file: it replaces a stale one, and is removed only by its owner.


@attrs.frozen
class SocketIdentity:
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


def identity_of(path: Path) -> SocketIdentity | None:
    """Return the identity of the file; None: there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return SocketIdentity(status.st_dev, status.st_ino)


def remove(path: Path, identity: SocketIdentity | None) -> None:
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
