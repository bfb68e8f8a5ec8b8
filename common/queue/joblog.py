"""Log lines of a job beside its file, for the time between two writes of the file.

Theory. A unit may log thousands of lines a second, and readers want each at once; to write the whole job file for
them would cost more with every line. So its process appends them to a file of their own, a line of JSON each, and
the job file takes them all along with the next change of state. A line is told from one that the
file has by its serial, which only grows. Lines are not made durable one by one: a loss of power may cost the
last ones, a crash of any process none. A line is here before the job file has it: so who knows the log up to some
line finds all that follow here, whatever he has seen of the job file.

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

# read in one go
CHUNK: Final = 2**20
_MODE: Final = 0o640
# which opcode, and the line
OpLine = tuple[int, LogEntry]


def encode_line(index: int, entry: LogEntry) -> bytes:
    """The line, with its end. Raises: TypeError: the message is no JSON."""
    return orjson.dumps([index, entry.serial, entry.at, entry.kind, entry.message], option=orjson.OPT_APPEND_NEWLINE)


def read_lines(path: Path, offset: int = 0) -> tuple[list[OpLine], int]:
    """The lines from a byte offset on, about a mebibyte of them, and the offset after them.

    No file is as good as an empty one. What is no line of ours is skipped.

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
    """The job with those lines that it does not have yet; cost: linear in the lines of their opcodes."""
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
    """The file of one job, to append to."""

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
            # no half line may stay before a whole one
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
