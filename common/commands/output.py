"""The output of commands, kept in files of bounded size: of a job on the master, of one command on its node.

The output is one stream of bytes. It lies in pieces `<base>.<offset>`, with the offset
of the piece's first byte in 20 digits. A piece is full at half of the limit, and only the last two are
kept. So a reader finds any offset by the names alone, and sees that earlier output is gone.
Output is not state: it is not synced, and a loss of power may cost its end.

Beside each piece lies `<base>.times.<offset>`, which tells when its bytes came: marks of 16 bytes, an offset of the
stream and milliseconds since the epoch. A mark is made when bytes come a quarter of a second after the last one, so a
time is at most that much too early. It is written before its bytes: whoever has read them finds it. The record is
no larger than half of its piece and 4 KiB; where lines are so short that it would be, some share the time of an
earlier one.
"""

import bisect
import contextlib
import os
import struct
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

from common.system.log import get_log

_DIGITS: Final = 20
_PIECES_KEPT: Final = 2
_MODE: Final = 0o640
_FOLDER_MODE: Final = 0o700
# the kernel refuses to read where no file can have a byte
_LONGEST_FILE: Final = 2**63 - 1
# offset of the first byte that came then, milliseconds since the epoch
_MARK: Final = struct.Struct(">QQ")
# seconds between two marks, at least
MARK_PAUSE_S: Final = 0.25
# bytes of a record that a piece of any size may have
_FREE_BYTES: Final = 4096
# the year 9999 has begun; a mark of that time is damage
_LATEST_MS: Final = 253_370_764_800_000
_log: Final = get_log(__name__)


class OutputFile:
    """The output of one job, for appending; a later process of the job continues it.

    Args:
        base: the pieces' common path.
        max_bytes: limit of all pieces together.
        makes_folder: whether the folder is made with the first piece; else it must exist.
        now: returns seconds since the epoch; None: no times are kept.
    """

    def __init__(
        self, base: Path, max_bytes: int, *, makes_folder: bool = False, now: Callable[[], float] | None = time.time
    ) -> None:
        self.base = base
        self._times = None if now is None else _TimesFile(now)
        self._makes_folder = makes_folder
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
            if self._makes_folder:
                self.base.parent.mkdir(_FOLDER_MODE, exist_ok=True)
            self._find_pieces()
        rest = memoryview(data)
        while rest:
            room = self._piece_bytes - self._size
            if self._fd < 0 or room <= 0:
                self._open_piece(is_full=room <= 0)
                continue
            if self._times is not None:
                self._times.mark(self._start + self._size, self._size)
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
            with open(_path(self.base, start), "rb") as file:
                file.seek(max(begin - start, 0))
                found += file.read()
        return found

    def close(self) -> None:
        if self._times is not None:
            self._times.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _find_pieces(self) -> None:
        # as late as possible: most jobs have no output, and the folder holds the pieces of all jobs
        self._pieces = pieces_of(self.base)
        if self._pieces:
            self._start = self._pieces[-1]
            self._size = os.stat(_path(self.base, self._start)).st_size

    def _open_piece(self, *, is_full: bool) -> None:
        self.close()
        if is_full:
            self._start, self._size = self._start + self._size, 0
        self._fd = os.open(_path(self.base, self._start), _APPENDED, _MODE)
        if self._times is not None:
            self._times.open(_record_path(self.base, self._start))
        if self._start not in self._pieces:
            self._pieces.append(self._start)
        while len(self._pieces) > _PIECES_KEPT:
            start = self._pieces.pop(0)
            for each in (_path(self.base, start), _record_path(self.base, start)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(each)


_APPENDED: Final = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_WRONLY


class _TimesFile:
    """The record of one piece, for appending. What it cannot write is left out: times are not the output."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._fd = -1
        self._size = 0
        # time of the last mark; None: this process has made none in this piece
        self._last: float | None = None

    def open(self, path: str) -> None:
        self.close()
        try:
            self._fd = os.open(path, _APPENDED, _MODE)
            size = os.fstat(self._fd).st_size
            self._size = size - size % _MARK.size
            if self._size != size:
                # the end of a mark was lost
                os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._give_up(path, error)

    def mark(self, offset: int, before: int) -> None:
        """Say that a byte comes now, if that is due. Args: before: bytes of the piece before it."""
        if self._fd < 0 or self._size + _MARK.size > _FREE_BYTES + before // 2:
            return
        now = self._now()
        # a clock that was set back begins anew
        if self._last is not None and 0 <= now - self._last < MARK_PAUSE_S:
            return
        self._last = now
        try:
            if os.write(self._fd, _MARK.pack(offset, int(now * 1000))) != _MARK.size:
                os.ftruncate(self._fd, self._size)
                return
        except (OSError, struct.error) as error:
            self._give_up(offset, error)
            return
        self._size += _MARK.size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._last = -1, None

    def _give_up(self, place: str | int, error: Exception) -> None:
        _log.warning("times.lost", place=place, error=error, next="go on without the times of this piece of output")
        self.close()


def pieces_of(base: Path) -> list[int]:
    """The offsets of an output's pieces, in order. Raises: OSError: the folder cannot be read."""
    prefix = f"{base.name}."
    names = [name.removeprefix(prefix) for name in os.listdir(base.parent) if name.startswith(prefix)]
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdigit())


def stream_end(base: Path) -> int:
    """Bytes that an output has had. Raises: OSError: the folder cannot be read."""
    return OutputFile(base, _PIECES_KEPT).end


@attrs.frozen
class OutputBytes:
    """Bytes of an output, beginning at `offset`."""

    offset: int
    content: bytes


def read_output(base: Path, offset: int, limit: int) -> OutputBytes:
    """Return the next bytes at or after `offset`, at most `limit`; empty if there are no more yet.

    A character may begin in one file and end in the next, so bytes that follow each other are returned together.

    Args: base: common path of the stream's pieces.
    Raises: OSError: the folder cannot be read.
    """
    starts = pieces_of(base)
    later = [start for start in starts if start > offset]
    begin, found = offset, b""
    for start in [*[start for start in starts if start <= offset][-1:], *later]:
        end = begin + len(found)
        if found and (start != end or len(found) >= limit):
            # output in between is lost
            break
        at = max(start, end)
        content = _read_at(_path(base, start), at - start, limit - len(found))
        if content:
            begin, found = begin if found else at, found + content
    return OutputBytes(begin, found)


@attrs.frozen
class OutputMark:
    """Bytes from `offset` on came at this time."""

    offset: int
    # seconds since the epoch; None: not known
    at: float | None


@attrs.frozen
class OutputMarks:
    """The times of a part of a stream."""

    # in the order of their offsets, the first one not after the part's begin; empty: there is no output
    marks: tuple[OutputMark, ...]
    # offset up to which they tell
    end: int


def read_marks(base: Path, begin: int, end: int, most: int) -> OutputMarks:
    """When the bytes from `begin` to before `end` came. A record that is missing or damaged tells nothing.

    Args:
        base: common path of the stream's pieces.
        most: number of marks that are returned at most, at least 1; then the part ends earlier.
    Raises: OSError: the folder, or a record, cannot be read.
    Cost: the records of the pieces are read, and only the marks of the part are looked at.
    """
    found: list[OutputMark] = []
    starts = pieces_of(base)
    for start, after in pairwise([*starts, _LONGEST_FILE]):
        if start < end and after > begin:
            found += _marks_of(_record(_record_path(base, start)), (start, after), begin, end)
        if len(found) > most:
            return OutputMarks(tuple(found[:most]), found[most].offset)
    return OutputMarks(tuple(found), end)


def _record(path: str) -> bytes:
    """The whole marks of a record; none: there is no record."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return b""
    return content[: len(content) - len(content) % _MARK.size]


def _marks_of(content: bytes, piece: tuple[int, int], begin: int, end: int) -> list[OutputMark]:
    """The marks for a part of a piece. Args: piece: its first byte, and that of the next one."""
    unknown = OutputMark(piece[0], None)

    def offset_at(number: int) -> int:
        offset: int = _MARK.unpack_from(content, number * _MARK.size)[0]
        return offset

    numbers = range(len(content) // _MARK.size)
    first = bisect.bisect_right(numbers, begin, key=offset_at) - 1
    last = bisect.bisect_left(numbers, end, key=offset_at)
    marks = [] if first >= 0 else [unknown]
    before = piece[0]
    for offset, at_ms in _MARK.iter_unpack(content[max(first, 0) * _MARK.size : last * _MARK.size]):
        if not before <= offset <= piece[1] or not 0 < at_ms < _LATEST_MS:
            return [unknown]
        before = offset
        if marks and marks[-1].offset == offset:
            # the first mark of a piece, or one of a process that was killed before it wrote the byte
            marks.pop()
        marks.append(OutputMark(offset, at_ms / 1000))
    return marks or [unknown]


def _path(base: Path, start: int) -> str:
    return f"{base}.{start:0{_DIGITS}d}"


def _record_path(base: Path, start: int) -> str:
    """Args: start: offset of the piece."""
    return f"{base}.times.{start:0{_DIGITS}d}"


def _read_at(path: str, offset: int, limit: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # removed since the folder was listed
        return b""
    try:
        return os.pread(fd, min(limit, _LONGEST_FILE - offset), offset)
    finally:
        os.close(fd)


class OutputSink:
    """Takes a program's output: all of it to the output file, its end to the tail. It outlives a disk that takes none.

    Args:
        tail_lines: lines of the tail; 0: nobody reads it.
    """

    def __init__(self, output: OutputFile, tail_lines: int = 0) -> None:
        self.tail = Tail(tail_lines)
        self.taken = 0
        # whether the file lacks some of it
        self.is_broken = False
        self._output = output

    def take(self, data: bytes) -> None:
        self.taken += len(data)
        self.tail.feed(data)
        if self.is_broken:
            return
        try:
            self._output.append(data)
        except OSError as error:
            # a full disk must not stop the work: the output is not the program's result
            self.is_broken = True
            _log.warning("output.lost", file=self._output.base, error=error, next="go on without an output file")

    def close(self) -> None:
        self._output.close()


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
