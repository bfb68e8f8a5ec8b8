"""Everything that a job process has started, however far removed: found, and signalled.

Theory. A command stays in the process group of its job, so that one killpg by luxid reaches both,
and luxid needs to know nothing of commands. Then a time-out cannot use the group: the job process
would hit itself. It signals its descendants one by one instead. They cannot hide: as "subreaper"
the job process inherits the orphans among them (a new session or group changes no parent), and killing
is repeated until none is left, so that a fork in between is of no use to them either.

Considered and rejected: a group of its own for the command. A KILL of the job's group would miss it.
"""

import contextlib
import ctypes
import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_libc: Final = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Be the parent of all orphans among the descendants of this process.

    Raises: OSError: the kernel does not know it (before 3.4).
    """
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become the subreaper")


def descendants(pid: int) -> frozenset[int]:
    """The living descendants of a process, zombies left out. Cost: O(processes of the machine)."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (status := _status_of(name)):
            state, parent = status
            if state != "Z":
                children[parent].append(int(name))
    found: list[int] = []
    left = [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return frozenset(found)


def _status_of(pid: str) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        # it ended meanwhile
        return None
    # the name before the last bracket may hold anything
    state, parent = content[content.rindex(b")") + 2 :].split(maxsplit=2)[:2]
    return state.decode(), int(parent)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal each of these; those that have ended meanwhile, or belong to another user, are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
