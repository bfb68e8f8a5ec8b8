"""Processes of this machine: their ancestry, the files they have open, and signals that never reach a stranger.

Theory. The kernel reuses a pid once its process is gone, so a pid alone proves nothing. A `Process` is the pid with
the instant of its start. It is signalled through a pidfd, which refers to one process
for ever: open the pidfd, compare the instant, then send the signal. (`os.kill` of an own child that is not
reaped is as safe, since its pid is still taken.)

Source: everyday.md a; DESIGN section 16.
"""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import attrs


@attrs.frozen
class Process:
    """A process that is not a zombie, or was not a moment ago."""

    pid: int
    # clock ticks from the machine's start to the process's
    started_at: int


def find_process(pid: int) -> Process | None:
    """The process with this pid now; None: there is none, or it is a zombie."""
    found = _stat(pid)
    return found[0] if found is not None else None


def is_living(process: Process) -> bool:
    """Whether it has not ended; a zombie counts as ended."""
    return find_process(process.pid) == process


def own_children() -> frozenset[int]:
    """The children of this process, zombies among them; the cost does not depend on other processes.

    Their pids are not reused until they are reaped.
    """
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return frozenset(map(int, file.read().split()))
    except OSError:
        # the kernel was built without this file
        return frozenset(child for child in _numbers() if (found := _stat(child)) is not None and found[1] == pid)


def descendants(*roots: int) -> frozenset[Process]:
    """The living descendants of these processes, without these themselves and without zombies.

    Cost: O(processes of the machine).
    """
    return Ancestry.read().descendants(*roots)


@attrs.frozen
class Ancestry:
    """The processes of the machine by their parents, as they were at one moment; zombies are not among them."""

    # pid of the parent -> its children
    _children: Mapping[int, Sequence[Process]]

    @classmethod
    def read(cls) -> Self:
        """Cost: O(processes of the machine)."""
        children: dict[int, list[Process]] = defaultdict(list)
        for pid in _numbers():
            if (found := _stat(pid)) is not None:
                children[found[1]].append(found[0])
        return cls(children)

    def descendants(self, *roots: int) -> frozenset[Process]:
        """Those of these processes, without these themselves. Cost: O(their number)."""
        result: set[Process] = set()
        left = list(roots)
        while left:
            below = [process for process in self._children.get(left.pop(), ()) if process not in result]
            result.update(below)
            left += [process.pid for process in below]
        return frozenset(result)


def holders(path: str) -> frozenset[Process]:
    """The processes that have this file open, as far as this process may look.

    Cost: O(open files of the machine); for rare occasions only.
    """
    wanted = os.path.realpath(path)
    return frozenset(process for pid in _numbers() if (process := _holder(pid, wanted)) is not None)


def holders_in(folder: str) -> Mapping[str, frozenset[Process]]:
    """The processes that have files of this folder open, as far as this process may look, by the file's name.

    Cost: O(open files of the machine), however many files there are.
    """
    beginning = f"{os.path.realpath(folder)}/"
    found: dict[str, set[Process]] = defaultdict(set)
    for pid in _numbers():
        names = {path.removeprefix(beginning) for path in _open_files(pid) if path.startswith(beginning)}
        if names and (process := find_process(pid)) is not None:
            for name in names:
                found[name].add(process)
    return {name: frozenset(processes) for name, processes in found.items()}


def is_holder(pid: int, path: str) -> bool | None:
    """Whether this process has the file open; None: permission denied."""
    try:
        os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return None
    except OSError:
        return False
    return _holder(pid, os.path.realpath(path)) is not None


def send(process: Process, number: signal.Signals) -> bool:
    """Signal the process; return False if it has ended, or belongs to another user. A zombie ignores the signal."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # the descriptor refers to the process that has the pid at this moment
        if not is_living(process):
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    """Signal each of these processes; those that have ended, or belong to another user, are skipped."""
    for process in processes:
        send(process, number)


def _holder(pid: int, wanted: str) -> Process | None:
    process = find_process(pid)
    if process is None:
        return None
    return process if wanted in _open_files(pid) else None


def _open_files(pid: int) -> Iterator[str]:
    """The paths of what a process has open, as far as this process may look."""
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                # only read the link: following it may block for ever
                yield os.readlink(f"{folder}/{name}")


def _numbers() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _stat(pid: int) -> tuple[Process, int] | None:
    """The process and its parent's pid; None: it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        return None
    # the name before the last bracket may contain any character
    fields = content[content.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[19])), int(fields[1])
