"""Ports for daemons of tests: each test process walks through a block of its own.

A port that the kernel chose may be taken by anybody's next connection before a daemon listens on it, and two processes
may be given the same one. Therefore the blocks lie below the ports that the kernel chooses from, and a process keeps
its block by the name of an abstract socket, which the kernel frees when the process ends.
"""

import contextlib
import errno
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
BLOCK: Final = 200
_FIRST: Final = 10_000
_KERNELS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(host: str = HOST) -> int:
    """A port that is free for TCP and UDP; another one each time, until all of the block have been given."""
    return next(port for port in itertools.islice(_PORTS.walk(), BLOCK) if _is_free(host, port))


class _Block:
    """The ports of this process, taken at the first use; a process that is forked takes its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._kept: socket.socket | None = None
        self._walk: Iterator[int] = iter(())

    def walk(self) -> Iterator[int]:
        if self._pid != os.getpid():
            first, self._kept = _take_block()
            self._walk = itertools.cycle(range(first, first + BLOCK))
            self._pid = os.getpid()
        return self._walk


_PORTS: Final = _Block()


def _take_block() -> tuple[int, socket.socket]:
    """The first port of a block that no other process has, and the socket that keeps it."""
    for first in range(_FIRST, int(_KERNELS.read_text().split()[0]) - BLOCK + 1, BLOCK):
        keeper = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            keeper.bind(f"\0gantry-test-ports-{first}")
        except OSError as error:
            keeper.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return first, keeper
    raise RuntimeError(f"no block of {BLOCK} ports is left below the kernel's own, see {_KERNELS}")


def _is_free(host: str, port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_server((host, port)),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        probe.bind((host, port))
        return True
    return False
