"""Log lines of jobs and of daemons, as people read them."""

import datetime
import heapq
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from common.printable import json_text, printable

# One line of a job's log, and its text.


_PLAIN: Final = "message"


@attrs.frozen
class JobLogLine:
    """One message in a job's log."""

    serial: int
    # seconds since the epoch
    at: float
    kind: str
    message: object


def log_text(line: JobLogLine) -> str:
    """A log entry in the form of cli.md 1.2: local time, blank, message."""
    return f"{time.ctime(line.at)} {message_text(line)}"


def message_text(line: JobLogLine) -> str:
    """The message; special kinds as JSON."""
    if line.kind == _PLAIN and isinstance(line.message, str):
        return printable(line.message)
    return json_text([line.kind, line.message])


# Lines of the daemons' logs: read, chosen, and put in the order of time.
#
# A record is a line such as `2026-03-01T12:00:00.412Z luxid info job.started job=27491 pid=311`, and the lines after it
# that do not begin so, such as a traceback. What a log begins with that is no such line, as after the cut of a
# rotation, is passed over.
#
# Source: common/system/log.py.


LEVELS: Final = ("debug", "info", "warning", "error", "critical")
# characters of an instant, by which lines can be compared as text
STAMP: Final = 24
# records of one log that may stand in another order than that of time, as several processes write to it
_WINDOW: Final = 256
_HEAD: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\S+) ([a-z]+) (\S*)(?: (.*))?", re.ASCII)
_FIELD: Final = re.compile(r'([A-Za-z_][\w.]*)=(?:"((?:[^"\\]|\\.)*)"|(\S*))')
_ESCAPED: Final = re.compile(r'\\(["\\])')


@attrs.frozen
class LogRecord:
    """A record of a log."""

    # as written: ISO 8601 in UTC
    stamp: str
    program: str
    level: str
    event: str
    rest: str
    # its lines, the first one included
    lines: tuple[str, ...]

    @property
    def at(self) -> float:
        """Seconds since the epoch."""
        return datetime.datetime.fromisoformat(self.stamp).timestamp()

    @property
    def fields(self) -> Mapping[str, str]:
        return {
            match[1]: match[3] if match[2] is None else _ESCAPED.sub(r"\1", match[2])
            for match in _FIELD.finditer(self.rest)
        }

    def to_json(self) -> dict[str, object]:
        told: dict[str, object] = {
            "at": self.stamp,
            "program": self.program,
            "level": self.level,
            "event": self.event,
            "fields": dict(self.fields),
        }
        return {**told, "more": list(self.lines[1:])} if len(self.lines) > 1 else told


@attrs.frozen
class LogChoice:
    """Which records are wanted."""

    # text of the instants, as in the lines; "": any
    since: str = ""
    until: str = ""
    level: str = LEVELS[0]
    # None: of any job
    job_id: int | None = None

    def wants(self, record: LogRecord) -> bool:
        if record.stamp < self.since or (self.until and record.stamp > self.until):
            return False
        if record.level in LEVELS and LEVELS.index(record.level) < LEVELS.index(self.level):
            return False
        return self.job_id is None or names_job(record, self.job_id)


def names_job(record: LogRecord, job_id: int) -> bool:
    """Whether the record is of this job, or names it as the cause."""
    text = str(job_id)
    if text not in record.rest:
        # most are of other jobs
        return False
    fields = record.fields
    return text in (fields.get("job"), fields.get("by_job"))


def stamp_of(seconds: float) -> str:
    """The instant as lines have it."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def read_records(lines: Iterable[str], since: str = "") -> Iterator[LogRecord]:
    """The records of these lines, without line ends, that are not older than `since`."""
    head: re.Match[str] | None = None
    found: list[str] = []
    for line in lines:
        # a comparison of text, as most lines of a long log are older
        is_old = line[:1].isdigit() and line[:STAMP] < since
        match = None if is_old else _HEAD.fullmatch(line)
        if match is None and not is_old:
            # only of a record that is wanted
            found += [line] if head is not None else []
            continue
        if head is not None:
            yield _record(head, found)
        head, found = match, [line]
    if head is not None:
        yield _record(head, found)


def in_order(logs: Collection[Iterable[LogRecord]]) -> Iterator[LogRecord]:
    """The records of all logs in the order of time; each log is nearly in it."""
    return heapq.merge(*map(_sorted, logs), key=lambda record: record.stamp)


def _sorted(records: Iterable[LogRecord]) -> Iterator[LogRecord]:
    window: list[tuple[str, int, LogRecord]] = []
    for place, record in enumerate(records):
        heapq.heappush(window, (record.stamp, place, record))
        if len(window) > _WINDOW:
            yield heapq.heappop(window)[2]
    while window:
        yield heapq.heappop(window)[2]


def _record(head: re.Match[str], lines: list[str]) -> LogRecord:
    return LogRecord(head[1], head[2], head[3], head[4], head[5] or "", tuple(lines))
