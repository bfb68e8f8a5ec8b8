"""Processes of this machine: their ancestry, the files they have open, and signals that never reach a stranger.

Theory. The kernel reuses a pid once its process is gone, so a pid alone proves nothing. A `Process` is the pid with
the instant of its start. It is signalled through a pidfd, which refers to one process
for ever: open the pidfd, compare the instant, then send the signal. (`os.kill` of an own child that is not
reaped is as safe, since its pid is still taken.)

Source: everyday.md a; DESIGN section 16.
"""

import contextlib
import errno
import os
import signal
import sys
import sysconfig
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import orjson

from common.system.livelock import PROBE_AGAIN_AFTER_S, Life, is_alive, probe


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


# End job processes that nobody waits for any more, with all that they have started.
#
# A process that has a job's livelock open is the job's process or a supervisor of its command; what is left of a job is
# found through it, as when a single job is killed. These are stopped first: a job's process whose command is killed
# would write into the job's file how it ended, and that file is another master's by now.
#
# A held livelock whose holder is not found is no proof that nothing is left: a supervisor of root, say, whose launcher
# is away.
#
# Source: DESIGN section 16.


# ends commands of a job that this process may not signal, by the path of its livelock, and returns their processes.
# Raises: OSError: they cannot be ended now
EndLaunched = Callable[[str], frozenset[Process]]


def kill_left_jobs(livelocks: Path, end_launched: EndLaunched | None = None) -> frozenset[Process]:
    """Send KILL to the processes that jobs have started; to a job's own processes when nothing else of it is left.

    Args: end_launched: None: there is no launcher here.
    Returns: the signalled processes; repeat the call until there are none.
    Raises: OSError: the folder cannot be read, the launcher does not answer, or a process that lives is not found.
    Cost: O(open files of the machine), however many jobs live: all must be dead when a mastership runs out.
    """
    living = {path.name for path in livelocks.glob("job_*") if is_alive(str(path))}
    if not living:
        return frozenset()
    jobs = [processes for name, processes in holders_in(str(livelocks)).items() if name in living]
    for roots in jobs:
        send_all(roots, signal.SIGSTOP)
    # read when no process of a job starts another one any more
    ancestry = Ancestry.read()
    killed: frozenset[Process] = frozenset()
    for roots in jobs:
        killed |= ancestry.descendants(*(process.pid for process in roots)) - roots or roots
    send_all(killed, signal.SIGKILL)
    if end_launched is not None:
        # last: the launcher may let us wait
        for name in sorted(living):
            killed |= end_launched(str(livelocks / name))
    if not killed and (hidden := _still_held(livelocks, living)):
        raise OSError(
            errno.EBUSY,
            f"'{min(hidden)}' is held by a process that cannot be found here; if commands run as other users, start "
            "gantry-launcher.socket and gantry-launcher",
        )
    return killed


def _still_held(livelocks: Path, names: Iterable[str]) -> frozenset[str]:
    """The names that are held for longer than the kernel takes to release them."""
    held = frozenset(names)
    for pause_s in (0.0, *PROBE_AGAIN_AFTER_S):
        if held:
            time.sleep(pause_s)
            held = frozenset(name for name in held if is_alive(str(livelocks / name)))
    return held


# How one of our programs starts another: with this Python, and with our packages importable.


def boot_id() -> str:
    """The present life of the machine, as the kernel names it. Raises: OSError."""
    return _BOOT_ID.read_text().strip()


def python_command(module: str, *words: str) -> list[str]:
    """The command that runs a module; nothing is imported from the current folder."""
    return [sys.executable, "-P", "-m", module, *words]


def python_environment() -> dict[str, str]:
    """Our environment, in which Python finds our packages even if they are not installed."""
    home = Path(__file__).resolve().parents[2]
    if home == Path(sysconfig.get_path("purelib")).resolve():
        return dict(os.environ)
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(home), *others]))}


# The commands of jobs that run on this node, for people who look at the node or stop its daemons.
#
# Source: DESIGN section 13; daemons/noded/core/commandphases.py says what the files mean.


_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LOCK: Final = ".live"
_END: Final = ".end"


def running_commands(folder: Path) -> Sequence[str]:
    """The keys of those that run, or have left processes that keep locks, sorted; none if the node has had no commands.

    Args: folder: of the commands of a node.
    Raises: OSError.
    Cost: a few calls of the kernel for each command that has not been forgotten.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    keys = sorted(name.removesuffix(_LOCK) for name in names if name.endswith(_LOCK))
    return [key for key in keys if probe(str(folder / f"{key}{_LOCK}")) is not Life.DEAD and not _is_over(folder, key)]


def _is_over(folder: Path, key: str) -> bool:
    """Whether only the runner is left, which is about to end."""
    try:
        end: object = orjson.loads((folder / f"{key}{_END}").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(end, dict) and end.get("is_over") is True


def going_on_words(folder: Path) -> str | None:
    """What goes on when this node's daemons stop; None: nothing, or it cannot be looked at."""
    try:
        count = len(running_commands(folder))
    except OSError:
        # of another user
        return None
    return (
        f"{count} command{'s' if count > 1 else ''} of jobs go{'es' if count == 1 else ''} on here" if count else None
    )
