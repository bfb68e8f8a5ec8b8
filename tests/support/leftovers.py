"""Which processes belong to an installation: to kill them all, and to see that a test left none."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path


def processes_under(root: Path) -> list[int]:
    """Pids of the living processes whose command line, environment or open files name this folder.

    Zombies and this process are left out. Cost: O(open files of the machine).
    """
    named = re.compile(re.escape(os.fsencode(root)) + rb"(?![\w-])")
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
    return [pid for pid in pids if any(named.search(text) for text in _traces(Path("/proc", str(pid))))]


def _traces(proc: Path) -> Iterator[bytes]:
    # whatever cannot be read belongs to a process that has ended, or to someone else
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            yield (proc / name).read_bytes()
    with contextlib.suppress(OSError):
        for fd in os.listdir(proc / "fd"):
            with contextlib.suppress(OSError):
                yield os.fsencode(os.readlink(proc / "fd" / fd))
