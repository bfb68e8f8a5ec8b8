"""Processes of this machine: who descends from whom, who has a file open, and signals that never reach a stranger.

Theory. A number of a process is used again once its process is gone, so a number alone proves nothing. A `Process` is
the number with the instant at which it started; and it is signalled through a pidfd, which means one process for
ever: it is opened first, then the instant is compared, then the signal is sent. (`os.kill` of an own child that
is not reaped is as safe, since its number is taken.)

Source: everyday.md a; DESIGN section 16.
"""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator

import attrs


@attrs.frozen
class Process:
    """A process that is no zombie, or was a moment ago."""

    pid: int
    # of the machine's clock ticks since it was started
    started_at: int


def find_process(pid: int) -> Process | None:
    """The process that has this number now; None: nobody, or a zombie."""
    found = _stat(pid)
    return found[0] if found is not None else None


def is_living(process: Process) -> bool:
    """Whether it has not ended; a zombie has."""
    return find_process(process.pid) == process


def own_children() -> frozenset[int]:
    """The children of this process, zombies among them; at a cost that does not depend on the machine's others.

    Their numbers are theirs until they are reaped.
    """
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return frozenset(map(int, file.read().split()))
    except OSError:
        # a kernel that was built without it
        return frozenset(child for child in _numbers() if (found := _stat(child)) is not None and found[1] == pid)


def descendants(*roots: int) -> frozenset[Process]:
    """The living descendants of these processes, without themselves and without zombies.

    Cost: O(processes of the machine).
    """
    children: dict[int, list[Process]] = defaultdict(list)
    for pid in _numbers():
        if (found := _stat(pid)) is not None:
            children[found[1]].append(found[0])
    result: set[Process] = set()
    left = list(roots)
    while left:
        below = [process for process in children.get(left.pop(), ()) if process not in result]
        result.update(below)
        left += [process.pid for process in below]
    return frozenset(result)


def holders(path: str) -> frozenset[Process]:
    """The processes that have this file open, as far as we may look.

    Cost: O(open files of the machine); for rare occasions only.
    """
    wanted = os.path.realpath(path)
    return frozenset(process for pid in _numbers() if (process := _holder(pid, wanted)) is not None)


def is_holder(pid: int, path: str) -> bool | None:
    """Whether this process has the file open; None: we may not look."""
    try:
        os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return None
    except OSError:
        return False
    return _holder(pid, os.path.realpath(path)) is not None


def send(process: Process, number: signal.Signals) -> bool:
    """Signal it; false: it has ended, or belongs to another user. A zombie takes the signal and does nothing."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # what the descriptor means is what has the number at this moment
        if find_process(process.pid) != process:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    """Signal each of these; who has ended, or belongs to another user, is passed over."""
    for process in processes:
        send(process, number)


def _holder(pid: int, wanted: str) -> Process | None:
    process = find_process(pid)
    if process is None:
        return None
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                # the link is only read: to follow one may take for ever
                if os.readlink(f"{folder}/{name}") == wanted:
                    return process
    return None


def _numbers() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _stat(pid: int) -> tuple[Process, int] | None:
    """The process and its parent; None: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        return None
    # the name before the last bracket may hold anything
    fields = content[content.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[19])), int(fields[1])
