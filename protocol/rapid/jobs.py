"""Jobs as programs get them under /3.

The names are luxid's fields, which the query language has, too; `GET /3/fields` describes them. Only the times
differ: they are seconds since 1970, where LUXI has pairs of seconds and microseconds (`jobvalues`).

Source: DESIGN section 15; luxid.md 7.3.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import JobState, LogEntry
from common.shapes import Lenient

# maximum and default number of jobs of a page
PAGE_MOST: Final = 1000
PAGE_DEFAULT: Final = 50
# fields of a list that names none
LIST_FIELDS: Final = (
    *("id", "status", "name", "summary", "user", "priority", "trace", "received_ts", "start_ts", "end_ts"),
)
# fields of one job that names none
JOB_FIELDS: Final = (
    *LIST_FIELDS,
    *("labels", "begin_ts", "hold", "uses", "tries", "traceparent", "node", "batch", "batch_terms", "archived"),
    *("ops", "opstatus", "opresult", "oplog", "opstart", "opexec", "opend", "oppriority"),
)


@attrs.frozen
class LogLine:
    """A message of a job."""

    # counts from 1 over all opcodes of the job
    serial: int
    # seconds since 1970
    at: float
    # "message" for text; other kinds have JSON
    kind: str
    message: object


@attrs.frozen
class JobHold:
    """The job does not begin before it is released."""

    # who holds it; empty: unknown
    by: str
    # seconds since 1970
    at: float
    why: str


@attrs.frozen
class JobBatch(Lenient):
    """The job's place in its batch, and the limits of the batch."""

    # number of the job in its submission, from 1
    place: int
    # number of jobs
    jobs: int
    # number of them that may run at once; null: any number
    at_most: int | None = None
    # number of failures after which the others still begin; null: any
    failures: int | None = None
    # keys of the labels whose values tell its jobs apart; empty: their nodes do
    each: tuple[str, ...] = ()


@attrs.frozen
class JobTry(Lenient):
    """A try of a command that failed, and that another one followed; instants are seconds since 1970."""

    n: int
    start: float
    end: float
    why: str
    # exit code; null: it was ended by a signal, or has not begun
    exit: int | None
    # instant before which the next one does not begin
    next: float
    # bytes of the job's output, and of its standard error if that is kept apart, at its end
    output: int
    errors: int = 0


@attrs.frozen
class Job(Lenient):
    """The fields that were asked for; a field without a value is null or left out.

    Lists named `op...` have one element for each opcode of the job.
    """

    id: JobId
    # null, though it was asked for: there is no such job
    status: JobState | None = None
    # of what is left to do; -20 is the most urgent
    priority: int | None = None
    archived: bool | None = None
    # submitter, if known
    user: str | None = None
    # node on which its command runs; empty for the master
    node: str | None = None
    # id shared by the jobs that were submitted together for many nodes; empty: none
    batch: str | None = None
    # null: it is in no batch
    batch_terms: JobBatch | None = None
    # shown instead of the summary; empty: it has none
    name: str | None = None
    labels: Mapping[str, str] | None = None
    # instant before which it does not begin
    begin_ts: float | None = None
    # null: it is not on hold
    hold: JobHold | None = None
    # resource -> units that it takes while it runs
    uses: Mapping[str, int] | None = None
    # id of the trace that it belongs to, 32 digits of base 16; empty: none
    trace: str | None = None
    # the span that submitted it, as W3C's Trace Context writes it; empty: none
    traceparent: str | None = None
    # for each opcode the tries before the last one
    tries: tuple[tuple[JobTry, ...], ...] | None = None
    # each opcode in a word
    summary: tuple[str, ...] | None = None
    summary_text: str | None = None
    # opcodes with their parameters
    ops: tuple[Mapping[str, object], ...] | None = None
    opid: tuple[object, ...] | None = None
    opstatus: tuple[JobState, ...] | None = None
    opresult: tuple[object, ...] | None = None
    oplog: tuple[tuple[LogLine, ...], ...] | None = None
    opstart: tuple[float | None, ...] | None = None
    opexec: tuple[float | None, ...] | None = None
    opend: tuple[float | None, ...] | None = None
    oppriority: tuple[int, ...] | None = None
    # seconds since 1970
    received_ts: float | None = None
    start_ts: float | None = None
    end_ts: float | None = None


@attrs.frozen
class JobPage:
    """A part of a list."""

    jobs: tuple[Job, ...]
    # cursor of the next page; null: this is the last one
    next: str | None = None
    # sentences for people, such as how many jobs the filter could not judge
    notes: tuple[str, ...] = ()


@attrs.frozen
class JobQuery:
    """A list of jobs: by ids, or a page of those that a filter finds."""

    # jobs by their ids, in this order, archived ones included, at most 1000; the rest but `fields` is ignored
    ids: tuple[JobId, ...] | None = None
    # filter text ("status=waiting & user=ada") or an expression of the query language; null: all
    filter: object = None
    # null: those of a list
    fields: tuple[str, ...] | None = None
    # whether archived jobs are wanted, too
    archived: bool = False
    limit: int = PAGE_DEFAULT
    # `next` of the page before
    cursor: str | None = None
    # whether the oldest come first
    ascending: bool = False


@attrs.frozen
class JobChange:
    """A job after a wait: at the time-out as it is then."""

    job: Job
    # log lines that the caller does not have
    log: tuple[LogLine, ...]


# Values of job fields: LUXI's form and the one under /3.
#
# LUXI has pairs of seconds and microseconds, and log lines as lists; under /3 a time is a number of seconds, and
# a log line an object. Both directions are exact until the year 2106.
#
# Source: luxid.md 7.3.


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


# Submit jobs: `POST /3/jobs`.
#
# Source: DESIGN section 15; luxid.md 2.2, 2.3.


@attrs.frozen
class SubmittedJob:
    """What became of one job: its id, or why it was refused."""

    id: JobId | None = None
    refused: str | None = None


@attrs.frozen
class Submitted:
    """One result for each job, in order; at least one job was taken, and is durable."""

    jobs: tuple[SubmittedJob, ...]
    # whether the same jobs were submitted before under this key: these are the results of then
    earlier: bool = False
    # id of the batch that they are; empty: they are none
    batch: str = ""


# Batches: jobs that were submitted together.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class BatchNow:
    """The jobs of a batch that are in the queue."""

    batch: str
    # "active" as long as one of them is; then the worst end of theirs: "error", "canceled" or "success"
    state: str
    # state -> number of jobs
    counts: Mapping[str, int]
    # name of its first job; empty: it has none
    name: str
    user: str
    first_id: JobId
    last_id: JobId


@attrs.frozen
class BatchList:
    # the newest first
    batches: tuple[BatchNow, ...]
