"""End processes, and wait for a port to listen."""

import contextlib
import os
import select
import signal
import socket
import time

from protocol.unixsocket import pauses

# End processes, and wait for their end.


def end_process(pid: int, timeout_s: float) -> bool:
    """Ask a process to end (SIGTERM) and wait; return whether it is gone.

    Raises: PermissionError: the process belongs to another user.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGTERM)
        return _wait_readable(fd, timeout_s)
    finally:
        os.close(fd)


def _wait_readable(fd: int, timeout_s: float) -> bool:
    # a pidfd is readable once its process has ended
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


# Wait until a port of this machine listens: no event tells of that.


def listens(host: str, port: int, within_s: float) -> bool:
    """Whether a daemon listens there within this time."""
    deadline = time.monotonic() + within_s
    for pause_s in pauses():
        try:
            socket.create_connection((host, port), within_s).close()
            return True
        except OSError:
            if time.monotonic() + pause_s >= deadline:
                return False
        time.sleep(pause_s)
    raise AssertionError("pauses() has no end")
