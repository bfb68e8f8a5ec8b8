"""Who is connected to a daemon: the connections that it has taken, apart from all its other files."""

import contextlib
import os
from pathlib import Path


def connection_count(pid: int, path: Path) -> int:
    """How many connections to the socket at `path` this process has accepted and not closed."""
    sockets = Path("/proc/net/unix").read_text().splitlines()
    inodes = {line.split()[6] for line in sockets if line.endswith(f" {path}")}
    # the one that listens is among them
    return sum(target in inodes for target in _socket_inodes(pid)) - 1


def _socket_inodes(pid: int) -> list[str]:
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(fd).removeprefix("socket:[").removesuffix("]"))
    return found
