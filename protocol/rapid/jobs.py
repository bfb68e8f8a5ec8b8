"""Jobs as programs get them under /3.

The names are luxid's fields, which the query language has, too; `GET /3/fields` describes them. Only the times
differ: they are seconds since 1970, where LUXI has pairs of seconds and microseconds (`jobvalues`).

Source: DESIGN section 15; luxid.md 7.3.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from common.ids import JobId
from common.queue.jobs import JobState
from common.shapes import Lenient

# maximum and default number of jobs of a page
PAGE_MOST: Final = 1000
PAGE_DEFAULT: Final = 50
# fields of a list that names none
LIST_FIELDS: Final = ("id", "status", "name", "summary", "user", "priority", "received_ts", "start_ts", "end_ts")
# fields of one job that names none
JOB_FIELDS: Final = (
    *LIST_FIELDS,
    *("labels", "begin_ts", "hold", "uses", "tries"),
    *("node", "batch", "archived", "ops", "opstatus", "opresult", "oplog", "opstart", "opexec", "opend", "oppriority"),
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
    # shown instead of the summary; empty: it has none
    name: str | None = None
    labels: Mapping[str, str] | None = None
    # instant before which it does not begin
    begin_ts: float | None = None
    # null: it is not on hold
    hold: JobHold | None = None
    # resource -> units that it takes while it runs
    uses: Mapping[str, int] | None = None
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
