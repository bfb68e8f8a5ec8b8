"""The small files beside job files: log lines, waits, and what luxid and a job process leave for each other."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import orjson

from common.access import Caller, caller_text
from common.errors import GantryError
from common.queue.explanation import SilentNode, Span
from common.queue.jobs import PRIORITY_HIGHEST, PRIORITY_LOWEST, Job, LogEntry
from common.system.log import get_log
from common.wire import structure

# Log lines of a job in a file beside the job file, between two writes of the job file.
#
# Theory. A unit may log thousands of lines a second, and readers want each line at once; writing the whole job file for
# each would cost more with every line. Therefore the job process appends them to a separate file, one JSON line each,
# and the next change of state writes them all into the job file. A line is recognized by its serial, which only
# grows. Lines are not synced one by one: a loss of power may cost the last ones, but a crash of a process costs
# none. A line is here before it is in the job file. So a reader that knows the log up to some line finds all later
# lines here, no matter which version of the job file it has read.
# A writer that died may have left half a line: readers ignore it, the next writer cuts it off.


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
    if not (lines := tuple(lines)):
        return job
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


# The spans of jobs on disk, beside the job files; `waithistory` defines a span.
#
# Theory. The job file has exactly Ganeti's keys, so the waits of jobs are kept in separate files: one file for
# a hundred ids, one line for a span. A job that waited costs an append, not a new file, and archiving it moves nothing.
# luxid writes its spans of a job when it lets go of the job; the job's process writes its waits for locks. Each append
# is one write, so lines of two writers never mix. An append also begins with a newline: half a line left by a full disk
# damages only itself.
#
# Durability: the file is not synced. The history is not acknowledged state: a loss of power may cost the last lines,
# and a crash of luxid those of the jobs queued at the time; the history then says that this part is unknown.
#
# Source: DESIGN section 11, "the job file has exactly the keys".


def append_spans(path: Path, spans: Iterable[tuple[int, Span]]) -> None:
    """Append spans, each with the id of its job, in one write; all ids belong to this file.

    Raises: OSError: the disk is full, or the file cannot be made.
    """
    lines = [
        orjson.dumps({"job": job_id, **span.to_wire()}, option=orjson.OPT_APPEND_NEWLINE) for job_id, span in spans
    ]
    content = b"\n" + b"".join(lines)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    try:
        written = os.write(fd, content)
    finally:
        os.close(fd)
    if written < len(content):
        raise OSError(f"'{path}' took {written} of {len(content)} bytes")


def read_spans(path: Path, job_id: int) -> list[Span]:
    """Return the spans of one job as written; a missing file has none, and lines in another form are skipped.

    Raises: OSError.
    Cost: linear in the file.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return spans_in(content, job_id)


def spans_in(content: bytes, job_id: int) -> list[Span]:
    """As `read_spans`, of the content of a file."""
    begin = b'{"job":%d,' % job_id
    found = []
    for line in content.splitlines():
        if line.startswith(begin):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found.append(Span.from_wire(orjson.loads(line)))
    return found


def jobs_in(content: bytes) -> frozenset[int]:
    """The ids of the jobs of which the content of a file tells spans. Cost: linear in it."""
    return frozenset(int(number) for number in re.findall(rb'^{"job":(\d{1,19}),', content, re.MULTILINE))


# luxid's message with the new priority of a job that has a process.
#
# The process takes it when it is signalled. What a process that ends leaves, because it was told too late, luxid gives
# to the job itself.
#
# Source: luxid.md 2.5.


_TAKEN: Final = ".taken"


def write_priority(message: Path, priority: int) -> None:
    """Write the message in one step and readable only for its owner: the process may read it at any signal.

    Raises: OSError.
    """
    temp = message.with_suffix(".tmp")
    temp.unlink(missing_ok=True)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, str(priority).encode())
    finally:
        os.close(fd)
    temp.replace(message)


@contextlib.contextmanager
def taken_priority(message: Path) -> Iterator[int | None]:
    """Take the message, so that nobody finds it again; None: there is none. A later one stays.

    Until the end of this context `left_priority` finds it, should this process die.

    Raises: OSError; ValueError: it is not a number.
    """
    # luxid may replace the message at any instant: one that was not read must not be removed
    taken = _taken(message)
    try:
        message.replace(taken)
    except FileNotFoundError:
        yield None
        return
    try:
        yield _read(taken)
    finally:
        taken.unlink(missing_ok=True)


def left_priority(message: Path) -> int | None:
    """Return what a process that is dead has not applied; None: there is nothing.

    Raises: OSError; ValueError: it is not a number.
    """
    for path in (message, _taken(message)):
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
    return None


def remove_priority(message: Path) -> None:
    """Remove the message, of which no process needs to know any more. Raises: OSError."""
    for path in (message, _taken(message)):
        path.unlink(missing_ok=True)


def _read(path: Path) -> int:
    return max(PRIORITY_HIGHEST, min(int(path.read_text()), PRIORITY_LOWEST))


def _taken(message: Path) -> Path:
    return message.with_name(message.name + _TAKEN)


# Who asked for the end of a job that has a process: a note of luxid for the text of the job's end.
#
# The note only informs: if it is missing or unreadable, the job ends in the same way.


_NOTE: Final = re.compile(r"user \d{1,10}|an HTTP caller without a name|HTTP user [!-~ ]{1,90}", re.ASCII)


def note_asker(path: Path, caller: Caller) -> None:
    """Write down which user asks. Raises: OSError."""
    note_words(path, caller_text(caller))


def note_words(path: Path, words: str) -> None:
    """`note_asker`, in the words of `caller_text`. Raises: OSError."""
    path.write_text(words)


def asked_by(path: Path) -> str:
    """` of user 1003`, to follow "on request"; "": the user is not known."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return f" of {text}" if _NOTE.fullmatch(text) else ""


# Which node a job process waits for, noted beside luxid's messages while it does, so that `why` can tell.
#
# Nothing rests on a note: it is not synced, and one that cannot be written or read is only missed. It names the
# livelock of its process; one that a killed process has left is not believed.
#
# Source: DESIGN section 6, "Explain".


_log = get_log(__name__)


@attrs.frozen
class _Noted:
    livelock: str
    node: str
    since: float
    until: float | None
    may_run: bool
    why: str


class SilenceNote:
    """The note of one process. Args: livelock: its own."""

    def __init__(self, path: Path, livelock: str) -> None:
        self._path = path
        self._livelock = livelock

    def put(self, silent: SilentNode | None) -> None:
        """Write the note; None: remove it. Never raises."""
        try:
            if silent is None:
                self._path.unlink(missing_ok=True)
                return
            noted = _Noted(self._livelock, silent.node, silent.since, silent.until, silent.may_run, silent.why)
            temp = self._path.with_name(f"{self._path.name}.tmp")
            temp.write_bytes(orjson.dumps(attrs.asdict(noted)))
            os.replace(temp, self._path)
        except OSError as error:
            _log.warning("silence.not_noted", file=self._path, error=error, effect="'gnt-job why' does not tell of it")

    def read(self) -> SilentNode | None:
        """What the process has noted; None: nothing. Raises: OSError."""
        try:
            noted = structure(orjson.loads(self._path.read_bytes()), _Noted, self._path.name)
        except (FileNotFoundError, orjson.JSONDecodeError, GantryError):
            return None
        if noted.livelock != self._livelock:
            return None
        return SilentNode(noted.node, noted.since, noted.until, noted.may_run, noted.why)
