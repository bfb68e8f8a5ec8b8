"""The fields of jobs, for queries; their values are read by `daemons.luxid.core.query.jobs`.

Source: luxid.md 7.3; those from `opid` to `batch`, and those of the job's terms and tries, are ours.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.ids import JobId
from common.opcodes.base import without_unset
from common.query.predicate import Field, FilterError, compile_expression
from common.query.qlang import Expression, Not, implied
from common.queue import reasons, terms
from common.queue.jobs import Dependency, Job, JobOp, JobState, LogEntry, Timestamp, job_state, to_timestamp
from common.queue.reasons import batch_of, submitter, tries_of
from common.queue.terms import is_label_key, terms_of
from common.tracecontext import read_traceparent
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

# the field that is known also of a job that cannot be read
_ID: Final = "id"
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


def words_of(view: JobView) -> str:
    """What people remember of a job, in small letters."""
    job, named = view.job, terms_of(view.job)
    comments = (comment for op in job.ops if isinstance(comment := op.input.get("comment"), str))
    labels = (f"{key}={value}" for key, value in named.labels.items())
    return "\n".join(
        (named.name, submitter(job), _node(job), *labels, *view.summaries, *comments, *_reasons(job))
    ).lower()


def _dependencies(job: Job) -> list[int]:
    """The jobs on which its opcodes depend, each once; what is in no form that is known to us is none."""
    found = dict[int, None]()
    for op in job.ops:
        depends = op.input.get("depends")
        for each in depends if isinstance(depends, list | tuple) else ():
            try:
                found[Dependency.from_wire(each).job_id] = None
            except (InvalidRequest, TypeError):
                continue
    return list(found)


def _hold(job: Job) -> dict[str, object] | None:
    hold = terms_of(job).hold
    return None if hold is None else {"by": hold.by, "at": hold.at, "why": hold.why}


def _batch_terms(job: Job) -> dict[str, object] | None:
    batch = batch_of(job)
    if batch is None:
        return None
    return {
        "place": batch.place,
        "jobs": batch.size,
        "at_most": batch.at_most,
        "failures": batch.failures,
        "each": list(batch.each),
    }


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


def _trace_id(job: Job) -> str:
    parent = read_traceparent(terms_of(job).trace)
    return "" if parent is None else parent.trace_id


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


@attrs.frozen
class _Declared:
    """A field: how queries describe it, and how it is read from a job."""

    kind: FieldKind
    name: str
    title: str
    doc: str
    read: JobField
    # what filters compare of its value; None: the value
    comparable: Callable[[object], object] | None = None
    # whether a job may lack it: its value is null then, which a query calls unavailable
    is_optional: bool = False


_text: Final = partial(_Declared, FieldKind.TEXT)
_number: Final = partial(_Declared, FieldKind.NUMBER)
_flag: Final = partial(_Declared, FieldKind.BOOL)
_other: Final = partial(_Declared, FieldKind.OTHER)


def _whole_seconds(at: object) -> object:
    return at[0] if isinstance(at, list) else at


# seconds and microseconds
_moment: Final = partial(_other, comparable=_whole_seconds, is_optional=True)


def _count_tries(tries: object) -> object:
    """How many tries the opcode with the most has had, the last one among them."""
    return 1 + max(map(len, tries), default=0) if isinstance(tries, list) else tries


def _count(values: object) -> object:
    """A filter asks how many there are."""
    return len(values) if isinstance(values, list) else values


def _is_held(hold: object) -> bool:
    """A filter asks only whether somebody holds the job."""
    return hold is not None


def _batch_place(terms: object) -> object:
    """A filter compares the place in the batch."""
    return terms.get("place") if isinstance(terms, Mapping) else terms


# fmt: off
_DECLARED: Final = (
    _number("id", "ID", "number of the job", lambda view: view.job.job_id),
    _text("status", "Status", "state of the job", lambda view: _STATE_NAMES[view.state]),
    _number("priority", "Priority", "most urgent priority of what is left to do, -20 to 19",
        lambda view: view.job.priority),
    _flag("archived", "Archived", "whether the job is set aside", lambda view: view.is_archived),
    _other("ops", "OpCodes", "the opcodes", _per_op(lambda op: without_unset(op.input))),
    _other("opresult", "OpCode_result", "result of each opcode", _per_op(lambda op: op.result)),
    _other("opstatus", "OpCode_status", "state of each opcode",
        lambda view: [_STATE_NAMES[state] for state in view.op_states]),
    _other("oplog", "OpCode_log", "messages of each opcode",
        lambda view: [_entries_of(op.log) for op in view.logged.ops]),
    _other("opstart", "OpCode_start", "when each opcode began to ask for its locks",
        _per_op(lambda op: _stamp(op.start_at))),
    _other("opexec", "OpCode_exec", "when each opcode had its locks and was executed",
        _per_op(lambda op: _stamp(op.exec_at))),
    _other("opend", "OpCode_end", "when each opcode ended", _per_op(lambda op: _stamp(op.end_at))),
    _other("oppriority", "OpCode_prio", "priority of each opcode", _per_op(lambda op: op.priority)),
    _other("summary", "Summary", "each opcode in a word", lambda view: view.summaries),
    # ours
    _other("opid", "OpCode_ids", "OP_ID of each opcode", _per_op(lambda op: op.input.get("OP_ID"))),
    _text("summary_text", "SummaryText", "the summary as one text, to search in",
        lambda view: ",".join(view.summaries)),
    _other("reason", "Reasons", "texts in the reason trails of all opcodes", lambda view: _reasons(view.job)),
    _text("reason_text", "ReasonText", "the reasons as one text, to search in",
        lambda view: "\n".join(_reasons(view.job))),
    _text("words", "Words", "name, labels, user, node, summary, comments and reasons in small letters, to search in",
        lambda view: words_of(view)),
    _text("user", "User", "name of the user who submitted the job, if known", lambda view: submitter(view.job)),
    _text("node", "Node", "node on which the job's command runs; empty for the master", lambda view: _node(view.job)),
    _text("batch", "Batch", "batch of the job: the jobs that were submitted together for many nodes",
        lambda view: batch.batch_id if (batch := batch_of(view.job)) is not None else ""),
    _other("batch_terms", "BatchTerms", "place of the job in its batch, number of jobs, and limits of the batch; "
        "null if it is in none", lambda view: _batch_terms(view.job), comparable=_batch_place),
    _text("name", "Name", "name that its submitter gave the job; empty for none", lambda view: terms_of(view.job).name),
    _other("labels", "Labels", "labels of the job; each is also a field of its own: label.KEY",
        lambda view: dict(terms_of(view.job).labels)),
    _other("hold", "Hold", "who holds the job, since when, and why; null if nobody does",
        lambda view: _hold(view.job), comparable=_is_held),
    _other("uses", "Uses", "units of resources that the job takes",
        lambda view: {use.key: use.count for use in terms_of(view.job).uses}),
    _other("dependencies", "Dependencies", "jobs on which the opcodes of the job depend; filters compare their number",
        lambda view: _dependencies(view.job), comparable=_count),
    _other("tries", "Tries", "tries of each opcode before the last one", _per_op(_tries), comparable=_count_tries),
    _text("trace", "Trace", "id of the trace that the job belongs to; empty for none",
        lambda view: _trace_id(view.job)),
    _text("traceparent", "TraceParent", "span that submitted the job, as W3C's traceparent; empty for none",
        lambda view: terms_of(view.job).trace),
    _number("exit_code", "ExitCode", "exit code of the last command of the job that has ended",
        lambda view: exit_code(view.job), is_optional=True),
    _moment("begin_ts", "Begin", "instant before which the job does not begin: seconds, microseconds",
        lambda view: _instant(terms_of(view.job).begin_at)),
    _moment("received_ts", "Received", "when the job was submitted: seconds, microseconds",
        lambda view: _stamp(view.job.received_at)),
    _moment("start_ts", "Start", "when the job began: seconds, microseconds", lambda view: _stamp(view.job.start_at)),
    _moment("end_ts", "End", "when the job ended: seconds, microseconds", lambda view: _stamp(view.job.end_at)),
)
# fmt: on
FIELDS: Final[Mapping[str, JobField]] = {each.name: each.read for each in _DECLARED}


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


def _reading(read: JobField) -> Callable[[JobRow], object]:
    def value(row: JobRow) -> object:
        return read(row) if type(row) is JobView else CellStatus.UNAVAILABLE

    return value


def _reading_some(read: JobField) -> Callable[[JobRow], object]:
    def value(row: JobRow) -> object:
        found = read(row) if type(row) is JobView else None
        return CellStatus.UNAVAILABLE if found is None else found

    return value


def _id(row: JobRow) -> JobId:
    return row.job.job_id if isinstance(row, JobView) else row.job_id


def _query_field(field: _Declared) -> QueryField[JobRow]:
    reading = _reading_some(field.read) if field.is_optional else _reading(field.read)
    value = _id if field.name == _ID else reading
    return QueryField(field.name, field.title, field.kind, field.doc, value, comparable=field.comparable)


def _label_field(name: str) -> QueryField[JobRow] | None:
    key, read = label_key(name), field_named(name)
    if key is None or read is None:
        return None
    return QueryField(name, key, FieldKind.TEXT, f"value of the label '{key}'; empty without it", _reading(read))


JOBS: Final[Things[JobRow]] = Things.of(
    "job", tuple(map(_query_field, _DECLARED)), name_field=_ID, dynamic=_label_field
)


# Which ended jobs cannot pass a filter, by their state alone.
#
# Theory. A list of what failed or still waits may look for a few jobs among a hundred thousand that succeeded. luxid
# knows the state of each ended job without its file. A filter implies something about the state; where that is false
# for a final state, no job in it can pass, so its jobs need not be read.
#
# Source: `common.query.qlang`.


_STATUS: Final = "status"


def possible_states(filter: Expression | None) -> frozenset[JobState]:
    """The states in which a job may pass the filter."""
    if filter is None or _STATUS not in filter.field_names():
        return frozenset(JobState)
    cannot_pass = compile_expression(Not(implied(filter, lambda name: name == _STATUS)), _status_field)
    try:
        return frozenset(state for state in JobState if not cannot_pass(state))
    except FilterError:
        # who asks hears of it when the first job is judged
        return frozenset(JobState)


def _status_field(name: str) -> Field[JobState] | None:
    return Field(lambda state: state.value) if name == _STATUS else None
