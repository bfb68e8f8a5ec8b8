"""The fields of jobs, for queries; their values are read by `daemons.luxid.core.query.jobs`.

Source: luxid.md 7.3; those from `opid` to `batch`, and those of the job's terms and tries, are ours.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.errors import PrerequisiteError
from common.ids import JobId
from common.opcodes.base import without_unset
from common.query.predicate import Field, FilterError, compile_expression
from common.query.qlang import Expression, Not, implied
from common.queue import reasons, terms
from common.queue.jobs import FINAL, Job, JobOp, JobState, LogEntry, Timestamp, job_state, to_timestamp
from common.queue.reasons import batch_of, submitter, tries_of
from common.queue.terms import is_label_key, terms_of
from daemons.luxid.core.choice.readings import reading_of
from daemons.luxid.core.query.engine import CellStatus, FieldKind, QueryField, Things

# The fields of a job as clients ask for them by name.
#
# Source: luxid.md 7.3; those from `opid` to `batch`, and those of the job's terms and tries, are ours.


@attrs.frozen
class JobView:
    """A job as it is shown."""

    job: Job
    is_archived: bool = False
    # its next opcode waits for other jobs: it reads waiting, though its file says queued
    is_blocked: bool = False
    # its command is to begin on a node that does not answer: it reads waiting, though its file says running
    is_silent: bool = False
    # it is being killed: until nothing of it lives it reads canceling, whatever its file says
    is_ending: bool = False
    # summary of its only opcode, if that was read before; goes with `job`
    summary: str | None = attrs.field(default=None, eq=False)
    # adds the log lines that are not in the job's file yet; None: it has all
    complete: Callable[[Job], Job] | None = attrs.field(default=None, eq=False)

    @property
    def logged(self) -> Job:
        """The job with its whole log."""
        return self.complete(self.job) if self.complete is not None else self.job

    @property
    def op_states(self) -> list[JobState]:
        states = [op.state for op in self.job.ops]
        if (self.is_blocked or self.is_silent) and (index := self.job.next_index) is not None:
            states[index] = JobState.WAITING
        if self.is_ending and (index := self.job.next_index) is not None:
            states[index] = JobState.CANCELING
        return states

    @property
    def state(self) -> JobState:
        is_shown_otherwise = self.is_blocked or self.is_silent or self.is_ending
        return job_state(self.op_states) if is_shown_otherwise else self.job.state

    @property
    def summaries(self) -> list[str]:
        """Of each opcode."""
        return [self.summary] if self.summary is not None else [reading_of(op.input).summary for op in self.job.ops]


JobField = Callable[[JobView], object]

# of the exit codes of all systems
_LARGEST_CODE: Final = 2**32
# sources of entries that are no reasons
_OF_JOB: Final = (terms.SOURCE, reasons.TRY_SOURCE)
# beginning of the names of fields for single labels
_LABEL: Final = "label."
# `value` of a member takes longer than all else of the field
_STATE_NAMES: Final = {state: state.value for state in JobState}


def _per_op(read: Callable[[JobOp], object]) -> JobField:
    return lambda view: [read(op) for op in view.job.ops]


def _stamp(at: Timestamp | None) -> list[int] | None:
    return list(at) if at is not None else None


def _instant(at: float | None) -> list[int] | None:
    return None if at is None else _stamp(to_timestamp(at))


def newer_entries(op: JobOp, after: float) -> Sequence[LogEntry]:
    """The lines of the opcode's log after a serial."""
    return op.log[bisect.bisect_right(op.log, after, key=lambda entry: entry.serial) :]


def _entries_of(log: Iterable[LogEntry]) -> list[list[object]]:
    return [[entry.serial, list(entry.at), entry.kind, entry.message] for entry in log]


def _reasons(job: Job) -> list[str]:
    """The texts in the reason trails of all opcodes, each once; empty ones, and terms and tries, are left out."""
    trails = (trail for op in job.ops if isinstance(trail := op.input.get("reason"), list | tuple))
    entries = (entry for trail in trails for entry in trail if isinstance(entry, list | tuple) and len(entry) > 1)
    return list(
        dict.fromkeys(
            entry[1] for entry in entries if isinstance(entry[1], str) and entry[1] and entry[0] not in _OF_JOB
        )
    )


def _node(job: Job) -> str:
    """The first node on which a command of the job is to run; "": none."""
    return next((node for op in job.ops if isinstance(node := op.input.get("node"), str)), "")


def _hold(job: Job) -> dict[str, object] | None:
    hold = terms_of(job).hold
    return None if hold is None else {"by": hold.by, "at": hold.at, "why": hold.why}


def _tries(op: JobOp) -> list[dict[str, object]]:
    """The tries before the last one."""
    return [
        {
            "n": each.number,
            "start": each.start_at,
            "end": each.end_at,
            "why": each.why,
            "exit": each.exit_code,
            "next": each.next_at,
            "output": each.output_end,
            "errors": each.error_end,
        }
        for each in tries_of(op)
    ]


def exit_code(job: Job) -> int | None:
    """The exit code of the last command that has ended; None: none has, or it ended without one."""
    for op in reversed(job.ops):
        if "argv" not in op.input or op.result is None:
            continue
        match op.result:
            case {"exit_code": int(code)} | [_, [_, {"exit_code": int(code)}, *_]]:
                # a file may say anything; the index takes no number beyond its own
                return code if abs(code) <= _LARGEST_CODE else None
            case _:
                return None
    return None


def label_key(name: str) -> str | None:
    """The key of the label that a field `label.KEY` is about; None: it is no such field, or no label is named so."""
    key = name.removeprefix(_LABEL)
    return key if key != name and is_label_key(key) else None


def _label(key: str) -> JobField:
    return lambda view: terms_of(view.job).labels.get(key, "")


FIELDS: Final[Mapping[str, JobField]] = {
    "id": lambda view: view.job.job_id,
    "status": lambda view: _STATE_NAMES[view.state],
    "priority": lambda view: view.job.priority,
    "archived": lambda view: view.is_archived,
    "ops": _per_op(lambda op: without_unset(op.input)),
    "opresult": _per_op(lambda op: op.result),
    "opstatus": lambda view: [_STATE_NAMES[state] for state in view.op_states],
    "oplog": lambda view: [_entries_of(op.log) for op in view.logged.ops],
    "opstart": _per_op(lambda op: _stamp(op.start_at)),
    "opexec": _per_op(lambda op: _stamp(op.exec_at)),
    "opend": _per_op(lambda op: _stamp(op.end_at)),
    "oppriority": _per_op(lambda op: op.priority),
    "summary": lambda view: view.summaries,
    # ours
    "opid": _per_op(lambda op: op.input.get("OP_ID")),
    "summary_text": lambda view: ",".join(view.summaries),
    "reason": lambda view: _reasons(view.job),
    "reason_text": lambda view: "\n".join(_reasons(view.job)),
    "user": lambda view: submitter(view.job),
    "node": lambda view: _node(view.job),
    "batch": lambda view: batch.batch_id if (batch := batch_of(view.job)) is not None else "",
    "name": lambda view: terms_of(view.job).name,
    "labels": lambda view: dict(terms_of(view.job).labels),
    "hold": lambda view: _hold(view.job),
    "uses": lambda view: {use.key: use.count for use in terms_of(view.job).uses},
    "tries": _per_op(_tries),
    "exit_code": lambda view: exit_code(view.job),
    "begin_ts": lambda view: _instant(terms_of(view.job).begin_at),
    "received_ts": lambda view: _stamp(view.job.received_at),
    "start_ts": lambda view: _stamp(view.job.start_at),
    "end_ts": lambda view: _stamp(view.job.end_at),
}


def field_named(name: str) -> JobField | None:
    """The field; None: there is none of this name."""
    if (field := FIELDS.get(name)) is not None:
        return field
    key = label_key(name)
    return None if key is None else _label(key)


def select_fields(names: Iterable[str]) -> list[JobField]:
    """Raises: PrerequisiteError: names all that are unknown, in order."""
    found = [(name, field_named(name)) for name in names]
    if unknown := [name for name, field in found if field is None]:
        raise PrerequisiteError(
            f"unknown job fields: {', '.join(unknown)}; known are {', '.join(FIELDS)}, label.KEY", "wrong_input"
        )
    return [field for _, field in found if field is not None]


def row_of(view: JobView, fields: Sequence[JobField]) -> list[object]:
    return [field(view) for field in fields]


@attrs.frozen
class UnreadJob:
    """A job of which nothing is known but its id: there is none, or nothing else was asked for."""

    job_id: JobId


JobRow = JobView | UnreadJob


def _reader(name: str) -> Callable[[JobRow], object]:
    return _reading(FIELDS[name])


def _reading(read: JobField) -> Callable[[JobRow], object]:
    def value(row: JobRow) -> object:
        return read(row) if type(row) is JobView else CellStatus.UNAVAILABLE

    return value


def _reader_of_some(name: str) -> Callable[[JobRow], object]:
    read = _reader(name)

    def value(row: JobRow) -> object:
        found = read(row)
        return CellStatus.UNAVAILABLE if found is None else found

    return value


def _whole_seconds(at: object) -> object:
    return at[0] if isinstance(at, list) else at


def _count_tries(tries: object) -> object:
    return 1 + max(map(len, tries), default=0) if isinstance(tries, list) else tries


def _id(row: JobRow) -> JobId:
    return row.job.job_id if isinstance(row, JobView) else row.job_id


def _field(name: str, title: str, kind: FieldKind, doc: str) -> QueryField[JobRow]:
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
    return QueryField(name, key, FieldKind.TEXT, f"value of the label '{key}'; empty without it", _reading(read))


# fmt: off
JOBS: Final[Things[JobRow]] = Things.of(
    "job",
    (
        _field("id", "ID", FieldKind.NUMBER, "number of the job"),
        _field("status", "Status", FieldKind.TEXT, "state of the job"),
        _field("priority", "Priority", FieldKind.NUMBER, "most urgent priority of what is left to do, -20 to 19"),
        _field("archived", "Archived", FieldKind.BOOL, "whether the job is set aside"),
        _field("ops", "OpCodes", FieldKind.OTHER, "the opcodes"),
        _field("opresult", "OpCode_result", FieldKind.OTHER, "result of each opcode"),
        _field("opstatus", "OpCode_status", FieldKind.OTHER, "state of each opcode"),
        _field("oplog", "OpCode_log", FieldKind.OTHER, "messages of each opcode"),
        _field("opstart", "OpCode_start", FieldKind.OTHER, "when each opcode began to ask for its locks"),
        _field("opexec", "OpCode_exec", FieldKind.OTHER, "when each opcode had its locks and was executed"),
        _field("opend", "OpCode_end", FieldKind.OTHER, "when each opcode ended"),
        _field("oppriority", "OpCode_prio", FieldKind.OTHER, "priority of each opcode"),
        _field("summary", "Summary", FieldKind.OTHER, "each opcode in a word"),
        _field("opid", "OpCode_ids", FieldKind.OTHER, "OP_ID of each opcode"),
        _field("summary_text", "SummaryText", FieldKind.TEXT, "the summary as one text, to search in"),
        _field("reason", "Reasons", FieldKind.OTHER, "texts in the reason trails of all opcodes"),
        _field("reason_text", "ReasonText", FieldKind.TEXT, "the reasons as one text, to search in"),
        _field("user", "User", FieldKind.TEXT, "name of the user who submitted the job, if known"),
        _field("node", "Node", FieldKind.TEXT, "node on which the job's command runs; empty for the master"),
        _field(
            "batch", "Batch", FieldKind.TEXT, "batch of the job: the jobs that were submitted together for many nodes"
        ),
        _field("name", "Name", FieldKind.TEXT, "name that its submitter gave the job; empty for none"),
        _field("labels", "Labels", FieldKind.OTHER, "labels of the job; each is also a field of its own: label.KEY"),
        _field("hold", "Hold", FieldKind.OTHER, "who holds the job, since when, and why; null if nobody does"),
        _field("uses", "Uses", FieldKind.OTHER, "units of resources that the job takes"),
        _field("tries", "Tries", FieldKind.OTHER, "tries of each opcode before the last one"),
        _field("exit_code", "ExitCode", FieldKind.NUMBER, "exit code of the last command of the job that has ended"),
        _field(
            "begin_ts", "Begin", FieldKind.OTHER, "instant before which the job does not begin: seconds, microseconds"
        ),
        _field("received_ts", "Received", FieldKind.OTHER, "when the job was submitted: seconds, microseconds"),
        _field("start_ts", "Start", FieldKind.OTHER, "when the job began: seconds, microseconds"),
        _field("end_ts", "End", FieldKind.OTHER, "when the job ended: seconds, microseconds"),
    ),
    name_field="id",
    dynamic=_label_field,
)
# fmt: on


# Which ended jobs cannot pass a filter, by their state alone.
#
# Theory. A list of what failed or still waits may look for a few jobs among a hundred thousand that succeeded. luxid
# knows the state of each ended job without its file. A filter implies something about the state; where that is false
# for a final state, no job in it can pass, so its jobs need not be read.
#
# Source: `common.query.qlang`.


_STATUS: Final = "status"


def hopeless_states(filter: Expression | None) -> frozenset[JobState]:
    """The final states in which no job passes the filter."""
    if filter is None or _STATUS not in filter.field_names():
        return frozenset()
    cannot_pass = compile_expression(Not(implied(filter, lambda name: name == _STATUS)), _status_field)
    try:
        return frozenset(state for state in FINAL if cannot_pass(state))
    except FilterError:
        # who asks hears of it when the first job is judged
        return frozenset()


def _status_field(name: str) -> Field[JobState] | None:
    return Field(lambda state: state.value) if name == _STATUS else None
