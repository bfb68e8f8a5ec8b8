"""Connect to a Unix socket by its path: one attempt, and error texts for users.

Source: luxid.md 1.5.
"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.errors import Denied, Unavailable
from common.paths import SOCKET_PATH_MAX_BYTES
from common.system.passing import SHORTAGES
from protocol.peer import peer_of

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
        sock.recv(1, socket.MSG_PEEK)
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
