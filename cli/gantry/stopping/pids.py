"""End processes, and wait for their end."""

import contextlib
import os
import select
import signal


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
