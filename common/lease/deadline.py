"""Until when this node may act as the master: a number in shared memory, moved on with every renewal of the lease.

Theory. The process that renews the lease writes the end of the mastership here, by CLOCK_BOOTTIME, which runs on while
the machine sleeps. Each daemon of the master reads it before it acts, at the cost of a look at memory, and ends when it
has passed, whatever has become of the writer. The number is written twice, the second time inverted, so that a reader
sees a torn write and looks again.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final, Self

from common.lease.records import Fullness

_FORM: Final = struct.Struct("<qq")
_MODE: Final = 0o640
# no mastership
NEVER: Final = 0
_NS: Final = 1_000_000_000


def boottime() -> float:
    """The clock of all deadlines of the lease: seconds since the machine was started, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DeadlineWriter:
    """The one writer; the file is made with no mastership. Raises: OSError."""

    def __init__(self, path: Path) -> None:
        # a new file: readers of an earlier keeperd's see its last deadline pass
        temporary = path.with_name(f"{path.name}.new")
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        try:
            os.write(fd, _FORM.pack(NEVER, ~NEVER))
            self._memory = mmap.mmap(fd, _FORM.size)
            os.rename(temporary, path)
        finally:
            os.close(fd)

    @classmethod
    def attach(cls, path: str) -> Self:
        """The writer of a file that is there already, in another process than the one that has made it."""
        writer = cls.__new__(cls)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            writer._memory = mmap.mmap(fd, _FORM.size)
        finally:
            os.close(fd)
        return writer

    def set(self, until_s: float) -> None:
        """Args: until_s: by `boottime`; 0: at once."""
        until = int(until_s * _NS)
        self._memory[:] = _FORM.pack(until, ~until)

    def close(self) -> None:
        self._memory.close()


class Deadline:
    """A reader. Raises: OSError: there is none, so keeperd has not been started here."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._memory = mmap.mmap(fd, _FORM.size, prot=mmap.PROT_READ)
        finally:
            os.close(fd)

    @property
    def until_s(self) -> float:
        """The end of the mastership by `boottime`, unless it is moved on; 0: there is none."""
        while True:
            until, inverted = _FORM.unpack(self._memory[:])
            if until == ~inverted:
                return float(until) / _NS

    @property
    def has_passed(self) -> bool:
        return boottime() >= self.until_s

    def close(self) -> None:
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Tells the daemons of the master how full etcd is: one byte in shared memory, which costs its readers nothing.
#
# Theory. Only keeperd looks at the members of etcd, once in a while; luxid must know the result with each submission,
# and may neither ask keeperd nor etcd then. A look at memory is enough: nobody waits for a change. The file stays when
# keeperd is started anew, so that a reader keeps seeing what is written.
#
# Source: lease.md 5.


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
