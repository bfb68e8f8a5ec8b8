"""The journal of the locks on disk: lines are put behind its last one, each durable before it counts.

Theory. To append to a file is to change its size, and so the file system's own journal has to be written
as well; to overwrite what the file has already is half the work. So room is made ahead, in pieces
of `ROOM`, and what is free of it reads as zeros. The file is opened such that a write returns when it is durable:
one call of the kernel for each line.

Source: DESIGN sections 3 and 8.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from daemons.wconfd.core.locks.journal import encode_line

ROOM: Final = 64 * 2**10
_APPEND: Final = os.O_WRONLY | os.O_DSYNC | os.O_CLOEXEC | os.O_NOFOLLOW


class LockJournal:
    """A journal that lies on disk already, with its header; opened when something is appended.

    Args:
        size: bytes of all lines that count; what follows is zeros, or of a write that was never finished.
        crc: of the last one of them.
    """

    def __init__(self, path: Path, size: int, crc: int, lines: int = 0) -> None:
        self._path = path
        self._crc = crc
        self._descriptor: int | None = None
        # bytes that the file has
        self._room = 0
        self.size = size
        # that count, without the header
        self.lines = lines
        # whether more may follow: all that was ever appended is there, and nothing else
        self.is_sound = True

    def append(self, text: bytes) -> None:
        """Put a line behind the others.

        Raises: OSError: it could not be made durable; take `give_up` for the only answer.
        Durability: on return it survives a loss of power.
        """
        line, crc = encode_line(text, self._crc)
        descriptor = self._open() if self._descriptor is None else self._descriptor
        if self.size + len(line) > self._room:
            self._make_room(descriptor, len(line))
        written = os.pwrite(descriptor, line, self.size)
        while written < len(line):
            written += os.pwrite(descriptor, memoryview(line)[written:], self.size + written)
        self.size, self._crc, self.lines = self.size + len(line), crc, self.lines + 1

    def give_up(self) -> None:
        """Cut off what a failed `append` may have left, as far as that can be done; nothing should follow.

        The kernel may forget, after an error, what it could not write; nobody knows then what a later sync stands for.
        """
        self.is_sound = False
        with contextlib.suppress(OSError):
            self._cut_off(self._open() if self._descriptor is None else self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self._descriptor = os.open(self._path, _APPEND)
        # of an earlier life there may be a line that was never finished, and zeros
        self._cut_off(self._descriptor)
        return self._descriptor

    def _cut_off(self, descriptor: int) -> None:
        self._room = self.size
        if os.fstat(descriptor).st_size > self.size:
            os.ftruncate(descriptor, self.size)
            os.fsync(descriptor)

    def _make_room(self, descriptor: int, size: int) -> None:
        room = (self.size + size + ROOM - 1) // ROOM * ROOM
        # where that cannot be done the line may still find its place
        with contextlib.suppress(OSError):
            os.posix_fallocate(descriptor, self._room, room - self._room)
            self._room = room
