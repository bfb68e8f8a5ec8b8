"""Stop processes, and know that they stand still.

A thread that runs on another processor goes on for moments after SIGSTOP was sent to it: long enough for a reply.
"""

import os
import signal
from pathlib import Path

from tests.support.wait import wait_until

_STILL = frozenset("TtZX")


def stop(pid: int) -> None:
    """SIGSTOP; returns when none of its threads runs. Raises: ProcessLookupError."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _is_still(pid), what=f"process {pid} stands still")


def _is_still(pid: int) -> bool:
    return _STILL.issuperset(_states(pid))


def _states(pid: int) -> set[str]:
    """State letters of its threads; none: it has ended."""
    found: set[str] = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            # the name before it may have any characters
            found.add(thread.read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
