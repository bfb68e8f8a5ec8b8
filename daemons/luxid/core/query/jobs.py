"""The fields of jobs, for queries; their values are read by `daemons.luxid.core.query.jobfields`.

Source: luxid.md 7.3; those from `opid` to `batch`, and those of the job's terms and tries, are ours.
"""

from collections.abc import Callable
from typing import Final

import attrs

from common.ids import JobId
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.fields import Kind, QueryField, Status
from daemons.luxid.core.query.jobfields import FIELDS, Field, JobView, field_named, label_key


@attrs.frozen
class UnreadJob:
    """A job of which nothing is known but its id: there is none, or nothing else was asked for."""

    job_id: JobId


JobRow = JobView | UnreadJob


def _reader(name: str) -> Callable[[JobRow], object]:
    return _reading(FIELDS[name])


def _reading(read: Field) -> Callable[[JobRow], object]:
    def value(row: JobRow) -> object:
        return read(row) if type(row) is JobView else Status.UNAVAILABLE

    return value


def _reader_of_some(name: str) -> Callable[[JobRow], object]:
    read = _reader(name)

    def value(row: JobRow) -> object:
        found = read(row)
        return Status.UNAVAILABLE if found is None else found

    return value


def _whole_seconds(at: object) -> object:
    return at[0] if isinstance(at, list) else at


def _count_tries(tries: object) -> object:
    return 1 + max(map(len, tries), default=0) if isinstance(tries, list) else tries


def _id(row: JobRow) -> JobId:
    return row.job.job_id if isinstance(row, JobView) else row.job_id


def _field(name: str, title: str, kind: Kind, doc: str) -> QueryField[JobRow]:
    if name == "hold":
        # a filter asks only whether somebody holds the job
        return QueryField(name, title, kind, doc, _reader(name), comparable=lambda found: found is not None)
    if name == "tries":
        # and how many tries the opcode with the most has had, the last one among them
        return QueryField(name, title, kind, doc, _reader(name), comparable=_count_tries)
    if name.endswith("_ts"):
        return QueryField(name, title, kind, doc, _reader_of_some(name), comparable=_whole_seconds)
    if name == "exit_code":
        return QueryField(name, title, kind, doc, _reader_of_some(name))
    return QueryField(name, title, kind, doc, _id if name == "id" else _reader(name))


def _label_field(name: str) -> QueryField[JobRow] | None:
    key, read = label_key(name), field_named(name)
    if key is None or read is None:
        return None
    return QueryField(name, key, Kind.TEXT, f"value of the label '{key}'; empty without it", _reading(read))


# fmt: off
JOBS: Final[Things[JobRow]] = Things.of(
    "job",
    (
        _field("id", "ID", Kind.NUMBER, "number of the job"),
        _field("status", "Status", Kind.TEXT, "state of the job"),
        _field("priority", "Priority", Kind.NUMBER, "most urgent priority of what is left to do, -20 to 19"),
        _field("archived", "Archived", Kind.BOOL, "whether the job is set aside"),
        _field("ops", "OpCodes", Kind.OTHER, "the opcodes"),
        _field("opresult", "OpCode_result", Kind.OTHER, "result of each opcode"),
        _field("opstatus", "OpCode_status", Kind.OTHER, "state of each opcode"),
        _field("oplog", "OpCode_log", Kind.OTHER, "messages of each opcode"),
        _field("opstart", "OpCode_start", Kind.OTHER, "when each opcode began to ask for its locks"),
        _field("opexec", "OpCode_exec", Kind.OTHER, "when each opcode had its locks and was executed"),
        _field("opend", "OpCode_end", Kind.OTHER, "when each opcode ended"),
        _field("oppriority", "OpCode_prio", Kind.OTHER, "priority of each opcode"),
        _field("summary", "Summary", Kind.OTHER, "each opcode in a word"),
        _field("opid", "OpCode_ids", Kind.OTHER, "OP_ID of each opcode"),
        _field("summary_text", "SummaryText", Kind.TEXT, "the summary as one text, to search in"),
        _field("reason", "Reasons", Kind.OTHER, "texts in the reason trails of all opcodes"),
        _field("reason_text", "ReasonText", Kind.TEXT, "the reasons as one text, to search in"),
        _field("user", "User", Kind.TEXT, "name of the user who submitted the job, if known"),
        _field("node", "Node", Kind.TEXT, "node on which the job's command runs; empty for the master"),
        _field("batch", "Batch", Kind.TEXT, "batch of the job: the jobs that were submitted together for many nodes"),
        _field("name", "Name", Kind.TEXT, "name that its submitter gave the job; empty for none"),
        _field("labels", "Labels", Kind.OTHER, "labels of the job; each is also a field of its own: label.KEY"),
        _field("hold", "Hold", Kind.OTHER, "who holds the job, since when, and why; null if nobody does"),
        _field("uses", "Uses", Kind.OTHER, "units of resources that the job takes"),
        _field("tries", "Tries", Kind.OTHER, "tries of each opcode before the last one"),
        _field("exit_code", "ExitCode", Kind.NUMBER, "exit code of the last command of the job that has ended"),
        _field("begin_ts", "Begin", Kind.OTHER, "instant before which the job does not begin: seconds, microseconds"),
        _field("received_ts", "Received", Kind.OTHER, "when the job was submitted: seconds, microseconds"),
        _field("start_ts", "Start", Kind.OTHER, "when the job began: seconds, microseconds"),
        _field("end_ts", "End", Kind.OTHER, "when the job ended: seconds, microseconds"),
    ),
    name_field="id",
    dynamic=_label_field,
)
# fmt: on
