"""The log files of an installation: those in use, and those that were rotated away.

Source: deploy/logrotate.
"""

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from common.daemons import DAEMONS
from common.errors import InvalidRequest
from common.paths import Paths

SUPERVISOR: Final = "supervisor"
COMMANDS: Final = "commands"
# `.1`, `.2.gz`, `-20260301`, `-20260301.gz`
_ROTATED: Final = r"(?:\.\d+|-\d{8}(?:\d+)?)(?:\.gz)?"
_CHUNK: Final = 1 << 16


@attrs.frozen
class LogFile:
    """A log in use."""

    # name of the daemon, `supervisor` or `commands`
    name: str
    path: Path

    def rotated(self) -> list[Path]:
        """The older files, oldest first. Raises: OSError: the folder cannot be listed."""
        pattern = re.compile(re.escape(self.path.name) + _ROTATED, re.ASCII)
        found = [Path(entry.path) for entry in os.scandir(self.path.parent) if pattern.fullmatch(entry.name)]
        return sorted(found, key=_changed_at)


def log_files(paths: Paths, names: Sequence[str] = ()) -> list[LogFile]:
    """The logs of these daemons; of all, if none is named. Raises: InvalidRequest: there is no such daemon."""
    known = {daemon.name: paths.log_file(daemon.name) for daemon in DAEMONS}
    known |= {SUPERVISOR: paths.supervisor_log, COMMANDS: paths.commands_log}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidRequest(f"there is no log of '{unknown[0]}'; known are {', '.join(known)}")
    return [LogFile(name, path) for name, path in known.items() if not names or name in names]


def changed_since(files: Iterable[Path], since: float) -> list[Path]:
    """Those that were written to after an instant: others have nothing newer."""
    return [path for path in files if _changed_at(path) >= since]


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a rotated file; a file that is gone, cut off while it was compressed, or damaged, ends early."""
    with (
        contextlib.suppress(FileNotFoundError, EOFError, gzip.BadGzipFile, zlib.error),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        yield from map(as_text, file)


@attrs.define
class _Tail:
    """An open file whose whole lines are read as they come."""

    _file: BinaryIO
    # beginning of a line whose end is not written yet
    _half: bytes = b""

    @property
    def identity(self) -> tuple[int, int]:
        there = os.fstat(self._file.fileno())
        return there.st_dev, there.st_ino

    def skip_to(self, most_bytes: int) -> None:
        """Go on at the first line that begins so many bytes before the end."""
        start = os.fstat(self._file.fileno()).st_size - most_bytes
        if start > 0:
            self._file.seek(start - 1)
            self._file.readline()

    def begin_again_if_cut(self, size: int) -> None:
        """Somebody may have cut the file off in place; what is new begins at its beginning then."""
        if size < self._file.tell():
            self._file.seek(0)
            self._half = b""

    def lines(self) -> Iterator[str]:
        """The whole lines from here on."""
        while chunk := self._file.read(_CHUNK):
            *lines, self._half = (self._half + chunk).split(b"\n")
            yield from map(as_text, lines)

    def close(self) -> None:
        self._file.close()


@attrs.define
class OpenLog:
    """A log that is read to its end, and followed from there; lines count when they are whole."""

    path: Path
    # None: it is missing
    _now: _Tail | None = None
    # the file before it, rotated away while it was followed: some process may still write to it
    _before: _Tail | None = None

    def open(self, most_bytes: int | None = None) -> None:
        """Open it, at its beginning or so many bytes before its end; a missing one is opened when it appears.

        Raises: OSError: it cannot be read.
        """
        with contextlib.suppress(FileNotFoundError):
            self._now = _Tail(self.path.open("rb"))
            if most_bytes is not None:
                self._now.skip_to(most_bytes)

    def lines(self) -> Iterator[str]:
        """The whole lines that were written since the last call."""
        for tail in (self._before, self._now):
            if tail is not None:
                yield from tail.lines()
        if self._turn_over() and self._now is not None:
            yield from self._now.lines()

    def close(self) -> None:
        for tail in (self._before, self._now):
            if tail is not None:
                tail.close()
        self._before = self._now = None

    def _turn_over(self) -> bool:
        """Return whether there is something new to read: another file is in place, or it was cut off."""
        try:
            there = self.path.stat()
        except OSError:
            return False
        if self._now is not None and self._now.identity == (there.st_dev, there.st_ino):
            self._now.begin_again_if_cut(there.st_size)
            return True
        if self._before is not None:
            self._before.close()
        self._before, self._now = self._now, None
        with contextlib.suppress(OSError):
            self._now = _Tail(self.path.open("rb"))
        return True


def as_text(line: bytes) -> str:
    return line.rstrip(b"\n").decode(errors="replace")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
