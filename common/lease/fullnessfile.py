"""Tells the daemons of the master how full etcd is: one byte in shared memory, which costs its readers nothing.

Theory. Only keeperd looks at the members of etcd, once in a while; luxid must know the result with each submission,
and may neither ask keeperd nor etcd then. A look at memory is enough: nobody waits for a change. The file stays when
keeperd is started anew, so that a reader keeps seeing what is written.

Source: lease.md 5.
"""

import mmap
import os
from pathlib import Path
from typing import Final

from common.lease.fullness import Fullness

_MODE: Final = 0o640


class FullnessWriter:
    """The one writer; the file is made if there is none, and says that all is fine. Raises: OSError."""

    def __init__(self, path: Path) -> None:
        self._memory = _mapped(path, os.O_RDWR | os.O_CREAT, mmap.PROT_READ | mmap.PROT_WRITE)
        self.set(Fullness.FINE)

    def set(self, level: Fullness) -> None:
        self._memory[0] = level

    def close(self) -> None:
        self._memory.close()


class FullnessReader:
    """Raises: OSError."""

    def __init__(self, path: Path) -> None:
        try:
            self._memory = _mapped(path, os.O_RDONLY, mmap.PROT_READ)
        except FileNotFoundError:
            # keeperd is of a release that does not tell it
            self._memory = mmap.mmap(-1, 1)

    @property
    def level(self) -> Fullness:
        """A level of a later release counts as the highest one that is known."""
        return Fullness(min(self._memory[0], max(Fullness)))

    def close(self) -> None:
        self._memory.close()


def _mapped(path: Path, flags: int, protection: int) -> mmap.mmap:
    fd = os.open(path, flags | os.O_CLOEXEC, _MODE)
    try:
        if flags & os.O_CREAT and os.fstat(fd).st_size == 0:
            os.ftruncate(fd, 1)
        return mmap.mmap(fd, 1, prot=protection)
    finally:
        os.close(fd)
