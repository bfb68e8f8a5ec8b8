"""Values of job fields: LUXI's form and the one under /3.

LUXI has pairs of seconds and microseconds, and log lines as lists; under /3 a time is a number of seconds, and
a log line an object. Both directions are exact until the year 2106.

Source: luxid.md 7.3.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.queue.jobs import LogEntry
from protocol.rapid.jobs import LogLine

_MICRO: Final = 1_000_000
# no instant is farther from 1970
_FARTHEST_S: Final = 1e12


def to_seconds(pair: object) -> object:
    """`[seconds, microseconds]` as seconds; anything else unchanged."""
    match pair:
        case [int() as whole, int() as micro]:
            return whole + micro / _MICRO
        case _:
            return pair


def to_pair(seconds: object) -> object:
    """Seconds as `[seconds, microseconds]`; null, and what is no instant, unchanged."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or abs(seconds) > _FARTHEST_S:
        return seconds
    return list(divmod(round(seconds * _MICRO), _MICRO))


def log_line(entry: LogEntry) -> LogLine:
    """A log entry of LUXI as under /3."""
    whole, micro = entry.at
    return LogLine(entry.serial, whole + micro / _MICRO, entry.kind, entry.message)


def log_entry(line: LogLine) -> LogEntry:
    """The other direction."""
    whole, micro = divmod(round(line.at * _MICRO), _MICRO)
    return LogEntry(line.serial, (whole, micro), line.kind, line.message)


def _each(convert: Callable[[object], object]) -> Callable[[object], object]:
    return lambda values: list(map(convert, values)) if isinstance(values, list | tuple) else values


def _entry_to_object(entry: object) -> object:
    match entry:
        case [serial, at, kind, message]:
            return {"serial": serial, "at": to_seconds(at), "kind": kind, "message": message}
        case _:
            return entry


def _object_to_entry(line: object) -> object:
    match line:
        case {"serial": serial, "at": at, "kind": kind, "message": message}:
            return [serial, to_pair(at), kind, message]
        case _:
            return line


_TIMES: Final = ("received_ts", "begin_ts", "start_ts", "end_ts")
_TIMES_OF_OPCODES: Final = ("opstart", "opexec", "opend")

_FROM_LUXI: Final[Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(_TIMES, to_seconds),
    **dict.fromkeys(_TIMES_OF_OPCODES, _each(to_seconds)),
    "oplog": _each(_each(_entry_to_object)),
}
_TO_LUXI: Final[Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(_TIMES, to_pair),
    **dict.fromkeys(_TIMES_OF_OPCODES, _each(to_pair)),
    "oplog": _each(_each(_object_to_entry)),
}


def job_object(fields: Sequence[str], values: Sequence[object]) -> dict[str, object]:
    """A row of LUXI as the JSON of a job under /3.

    Args: values: JSON values, in the order of the fields.
    """
    job = dict(zip(fields, values, strict=True))
    for name in _FROM_LUXI.keys() & job.keys():
        job[name] = _FROM_LUXI[name](job[name])
    return job


def luxi_row(fields: Sequence[str], job: Mapping[str, object]) -> list[object]:
    """The JSON of a job under /3 as a row of LUXI, null for what it lacks."""
    return [_TO_LUXI[name](job.get(name)) if name in _TO_LUXI else job.get(name) for name in fields]
