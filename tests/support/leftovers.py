"""Which processes belong to an installation or a run of the tests: to kill them all, and to see that none is left."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.support.wait import wait_until

# seconds for what is ending of itself at the end of a run
_ENDING_S = 5.0


def processes_under(root: Path) -> list[int]:
    """Pids of the living processes whose command line, environment or open files name this folder.

    Zombies and this process are left out. Cost: O(open files of the machine).
    """
    named = re.compile(re.escape(os.fsencode(root)) + rb"(?![\w-])")
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
    return [pid for pid in pids if any(named.search(text) for text in _traces(Path("/proc", str(pid))))]


def kill_all_under(root: Path) -> None:
    """SIGKILL until none of them is left."""

    def kill_all() -> bool:
        found = processes_under(root)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    wait_until(kill_all, what="everything is killed", state=lambda: processes_under(root))


def end_leftovers(run: Path, *, ending_s: float = _ENDING_S) -> list[str]:
    """Kill what a run of the tests has left, and tell it: pid and command of each.

    Args:
        run: the folder in which its tests had theirs.
        ending_s: for those that end of themselves; they are not told.
    """
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not processes_under(run), what="the processes of all tests have ended", timeout_s=ending_s)
    left = [f"{pid} {_command(pid)}" for pid in processes_under(run)]
    kill_all_under(run)
    return left


def inotify_instances(pid: int) -> int:
    """How many of them this process holds; 0 if it has ended."""
    found = 0
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found += os.readlink(f"/proc/{pid}/fd/{fd}") == "anon_inode:inotify"
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")).strip()
    return "has ended meanwhile"


def _traces(proc: Path) -> Iterator[bytes]:
    # whatever cannot be read belongs to a process that has ended, or to someone else
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            yield (proc / name).read_bytes()
    with contextlib.suppress(OSError):
        for fd in os.listdir(proc / "fd"):
            with contextlib.suppress(OSError):
                yield os.fsencode(os.readlink(proc / "fd" / fd))
