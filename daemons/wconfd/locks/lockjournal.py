"""The journal of the locks on disk: lines are appended, and each is durable before it counts.

Theory. Appending to a file changes its size, so the file system must also write its own
journal; overwriting existing bytes is half the work. So room is allocated ahead, in pieces
of `ROOM`, and the free part reads as zeros. The file is opened so that a write returns when it is durable:
one system call for each line.

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
    """A journal that exists on disk, with its header; opened at the first append.

    Args:
        size: bytes of all lines that count; after them come zeros, or an unfinished write.
        crc: checksum of the last of these lines.
    """

    def __init__(self, path: Path, size: int, crc: int, lines: int = 0) -> None:
        self._path = path
        self._crc = crc
        self._descriptor: int | None = None
        # bytes of the file
        self._room = 0
        self.size = size
        # number of lines that count, without the header
        self.lines = lines
        # whether lines may be appended: everything ever appended is there, and nothing else
        self.is_sound = True

    def append(self, text: bytes) -> None:
        """Append a line.

        Raises: OSError: it could not be made durable; the only valid reaction is `give_up`.
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
        """Cut off what a failed `append` may have left, as far as possible; append nothing after this.

        After an error the kernel may forget what it failed to write, so a later successful sync would prove nothing.
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
        # an earlier process may have left an unfinished line, and zeros
        self._cut_off(self._descriptor)
        return self._descriptor

    def _cut_off(self, descriptor: int) -> None:
        self._room = self.size
        if os.fstat(descriptor).st_size > self.size:
            os.ftruncate(descriptor, self.size)
            os.fsync(descriptor)

    def _make_room(self, descriptor: int, size: int) -> None:
        room = (self.size + size + ROOM - 1) // ROOM * ROOM
        # if that fails, the line may still fit
        with contextlib.suppress(OSError):
            os.posix_fallocate(descriptor, self._room, room - self._room)
            self._room = room
