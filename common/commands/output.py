"""The output of a job's commands, kept in files of bounded size.

The output is one stream of bytes for the whole job. It lies in pieces `<base>.<offset>`, with the offset
of the piece's first byte in 20 digits. A piece is full at half of the limit, and only the last two are
kept. So a reader finds any offset by the names alone, and sees that earlier output is gone.
Output is not state: it is not synced, and a loss of power may cost its end.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_DIGITS: Final = 20
_PIECES_KEPT: Final = 2
_MODE: Final = 0o640


class OutputFile:
    """The output of one job, for appending; a later process of the job continues it.

    Args:
        base: the pieces' common path; the folder must exist.
        max_bytes: limit of all pieces together.
    """

    def __init__(self, base: Path, max_bytes: int) -> None:
        self._base = base
        self._piece_bytes = max(max_bytes // _PIECES_KEPT, 1)
        self._pieces: list[int] = []
        # offset of the last piece, and its size
        self._start = 0
        self._size = 0
        self._fd = -1

    def append(self, data: bytes) -> None:
        """Add to the stream.

        Raises: OSError: the disk is full or the file cannot be made; some of `data` may be lost.
        """
        if not self._pieces:
            self._find_pieces()
        rest = memoryview(data)
        while rest:
            room = self._piece_bytes - self._size
            if self._fd < 0 or room <= 0:
                self._open_piece(is_full=room <= 0)
                continue
            written = os.write(self._fd, rest[:room])
            self._size += written
            rest = rest[written:]

    @property
    def end(self) -> int:
        """Bytes that the stream has had. Raises: OSError: the folder cannot be read."""
        if not self._pieces:
            self._find_pieces()
        return self._start + self._size

    def skip(self, count: int) -> None:
        """Leave out bytes of the stream that are lost; what is appended later has the offset that it had before."""
        if count > 0:
            end = self.end
            self.close()
            self._start, self._size = end + count, 0

    def last(self, count: int, begin: int) -> bytes:
        """The last bytes of the stream, at most `count`, from the offset `begin` on. Raises: OSError."""
        begin = max(self.end - count, begin)
        found = b""
        for start in self._pieces:
            with open(self._path(start), "rb") as file:
                file.seek(max(begin - start, 0))
                found += file.read()
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _find_pieces(self) -> None:
        # as late as possible: most jobs have no output, and the folder holds the pieces of all jobs
        self._pieces = pieces_of(self._base)
        if self._pieces:
            self._start = self._pieces[-1]
            self._size = os.stat(self._path(self._start)).st_size

    def _open_piece(self, *, is_full: bool) -> None:
        self.close()
        if is_full:
            self._start, self._size = self._start + self._size, 0
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path(self._start), flags, _MODE)
        if self._start not in self._pieces:
            self._pieces.append(self._start)
        while len(self._pieces) > _PIECES_KEPT:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(self._pieces.pop(0)))

    def _path(self, start: int) -> str:
        return f"{self._base}.{start:0{_DIGITS}d}"


def pieces_of(base: Path) -> list[int]:
    """The offsets of an output's pieces, in order."""
    prefix = f"{base.name}."
    names = [name.removeprefix(prefix) for name in os.listdir(base.parent) if name.startswith(prefix)]
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())


def stream_end(base: Path) -> int:
    """Bytes that an output has had. Raises: OSError: the folder cannot be read."""
    return OutputFile(base, _PIECES_KEPT).end


class Tail:
    """The last lines of a stream, without a cost for each line.

    Args:
        lines: number of lines to keep.
    """

    LINE_CHARS: Final = 500
    # bytes of a line of the greatest length in the longest characters
    _LINE_BYTES: Final = 4 * LINE_CHARS

    def __init__(self, lines: int) -> None:
        self._lines = lines
        # bytes at the end of the stream that decide
        self.most_bytes = (lines + 1) * self._LINE_BYTES
        self._kept = b""

    def feed(self, data: bytes) -> None:
        self._kept = (self._kept + data[-self.most_bytes :])[-self.most_bytes :]

    def lines(self) -> list[str]:
        """The last lines, each cut at 500 characters; of a very long line possibly only the end."""
        if not self._lines:
            return []
        text = self._kept.decode("utf-8", "replace")
        lines = text.removesuffix("\n").split("\n") if text else []
        return [line[: self.LINE_CHARS].removesuffix("\r") for line in lines[-self._lines :]]
