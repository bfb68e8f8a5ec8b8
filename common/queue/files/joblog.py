"""Log lines of a job in a file beside the job file, between two writes of the job file.

Theory. A unit may log thousands of lines a second, and readers want each line at once; writing the whole job file for
each would cost more with every line. Therefore the job process appends them to a separate file, one JSON line each,
and the next change of state writes them all into the job file. A line is recognized by its serial, which only
grows. Lines are not synced one by one: a loss of power may cost the last ones, but a crash of a process costs
none. A line is here before it is in the job file. So a reader that knows the log up to some line finds all later
lines here, no matter which version of the job file it has read.
A writer that died may have left half a line: readers ignore it, the next writer cuts it off.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.queue.jobs import Job, LogEntry

# bytes to read at once
CHUNK: Final = 2**20
_MODE: Final = 0o640
# (index of the opcode, line)
OpLine = tuple[int, LogEntry]


def encode_line(index: int, entry: LogEntry) -> bytes:
    """Encode a line, with its end. Raises: TypeError: the message is not JSON-able."""
    return orjson.dumps([index, entry.serial, entry.at, entry.kind, entry.message], option=orjson.OPT_APPEND_NEWLINE)


def read_lines(path: Path, offset: int = 0) -> tuple[list[OpLine], int]:
    """Read the lines from a byte offset on, about a mebibyte of them; return them and the offset after them.

    A missing file counts as empty. Lines in another form are skipped.

    Raises: OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return [], offset
    try:
        content = os.pread(fd, CHUNK, offset)
        while content and b"\n" not in content and (more := os.pread(fd, CHUNK, offset + len(content))):
            content += more
    finally:
        os.close(fd)
    whole = content[: content.rfind(b"\n") + 1]
    return [line for text in whole.splitlines() if (line := _decode(text)) is not None], offset + len(whole)


def read_all_lines(path: Path) -> list[OpLine]:
    """All lines. Raises: OSError."""
    found: list[OpLine] = []
    offset = 0
    while True:
        lines, after = read_lines(path, offset)
        if after == offset:
            return found
        found += lines
        offset = after


def add_lines(job: Job, lines: Iterable[OpLine]) -> Job:
    """Add the lines that the job does not have yet; cost: linear in the lines of their opcodes."""
    last = job.next_log_serial - 1
    fresh: dict[int, list[LogEntry]] = {}
    for index, entry in lines:
        if entry.serial > last and index < len(job.ops):
            last = entry.serial
            fresh.setdefault(index, []).append(entry)
    if not fresh:
        return job
    ops = tuple(
        attrs.evolve(op, log=(*op.log, *fresh[index])) if index in fresh else op for index, op in enumerate(job.ops)
    )
    return attrs.evolve(job, ops=ops)


class JobLogFile:
    """The log file of one job, for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def append(self, lines: Sequence[bytes]) -> None:
        """Add whole lines. Raises: OSError: the disk is full, or the file cannot be made."""
        if self._fd < 0:
            self._fd = _open(self._path)
        content = b"".join(lines)
        written = os.write(self._fd, content)
        if written < len(content):
            # a half line must not stay before a whole one
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise OSError(f"'{self._path}' took {written} of {len(content)} bytes")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _open(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    with contextlib.suppress(OSError):
        size = os.fstat(fd).st_size
        tail = os.pread(fd, CHUNK, max(size - CHUNK, 0))
        if tail and not tail.endswith(b"\n"):
            os.ftruncate(fd, size - len(tail) + tail.rfind(b"\n") + 1)
    return fd


def _decode(text: bytes) -> OpLine | None:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    match value:
        case [int() as index, int() as serial, [int() as seconds, int() as micros], str() as kind, message]:
            return index, LogEntry(serial, (seconds, micros), kind, message)
        case _:
            return None
