"""A job as a trace: spans of the job, of what it waited for, and of its opcodes with their waits for locks.

Theory. The ids are derived from the cluster and the job's id, so that a job that is exported twice has the same spans.
A job with a `traceparent` is in that trace, under that span; a parent that is not recorded keeps the job from being
recorded, too. All spans are made when the job has ended.

    job                          received to end
      wait dependency            one for each period and cause
      wait locks                 under its opcode
      RUN_COMMAND                from when it began to ask for its locks to its end

Source: OpenTelemetry, "Trace semantic conventions"; W3C Trace Context.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.queue.explanation import Span as WaitSpan
from common.queue.explanation import WaitKind
from common.tracecontext import TraceParent, read_traceparent
from common.words.fields import JobRow
from common.words.outcome import FIELDS as OUTCOME_FIELDS
from common.words.outcome import Outcome, end_words, outcome_of, result_text
from common.words.times import to_seconds
from common.words.why import cause_words

# luxid's fields of which the spans are made
FIELDS: Final = (
    *OUTCOME_FIELDS,
    *("name", "user", "node", "batch", "priority", "labels", "exit_code", "traceparent"),
    *("received_ts", "opid", "opstart", "opend"),
)
# characters of a text that a span has
_LONGEST: Final = 500

Value = str | bool | int | float | Sequence[str] | Sequence[int]


@attrs.frozen
class TracedCluster:
    """Where the jobs are."""

    uuid: str
    name: str


@attrs.frozen
class TraceSpan:
    """A span; instants in seconds since the epoch."""

    name: str
    # digits of base 16, 32 and 16
    trace_id: str
    span_id: str
    # None: it has none
    parent_id: str | None
    # whether the parent is of another system
    is_parent_remote: bool
    start: float
    # not before the start
    end: float
    attributes: Mapping[str, Value]
    # True: success; False: failed; None: neither
    is_success: bool | None = None
    # why it failed
    failure: str = ""
    # name -> instant
    events: Mapping[str, float] = attrs.field(factory=dict)


def job_spans(row: JobRow, waits: Sequence[WaitSpan], cluster: TracedCluster) -> list[TraceSpan]:
    """The spans of an ended job, its own first; none: its parent is not recorded, or the job has no times.

    Args: row: with `FIELDS`, of a job that exists. waits: as of `ReadJobWaits`.
    """
    parent = read_traceparent(row["traceparent"])
    received, end = to_seconds(row["received_ts"]), to_seconds(row["end_ts"])
    if end is None or (parent is not None and not parent.is_sampled):
        return []
    made = _Maker(cluster, row["id"], parent)
    outcome = outcome_of(row)
    root = made.span(
        row["name"] or ", ".join(_op_name(each) for each in row["opid"]),
        "job",
        None,
        (end if received is None else received, end),
        _job_facts(row, outcome, cluster),
        _is_success(outcome.status),
        failure=_cut(end_words(outcome, lambda uid: None) or "") if outcome.status == "error" else "",
    )
    opcodes = list(_opcode_spans(made, row, outcome, root))
    return [root, *opcodes, *_wait_spans(made, waits, root, opcodes)]


def _job_facts(row: JobRow, outcome: Outcome, cluster: TracedCluster) -> dict[str, Value]:
    optional: dict[str, Value | None] = {
        "gantry.job.name": row["name"] or None,
        "gantry.job.user": row["user"] or None,
        "gantry.job.node": row["node"] or None,
        "gantry.job.batch": row["batch"] or None,
        "gantry.job.exit_code": row["exit_code"],
    }
    return {
        "gantry.cluster.uuid": cluster.uuid,
        "gantry.job.id": row["id"],
        "gantry.job.status": outcome.status,
        "gantry.job.priority": row["priority"],
        "gantry.job.summary": _cut(", ".join(outcome.summaries)),
        **{name: value for name, value in optional.items() if value is not None},
        **{f"gantry.job.label.{key}": value for key, value in row["labels"].items()},
    }


def _opcode_spans(made: "_Maker", row: JobRow, outcome: Outcome, root: TraceSpan) -> Iterator[TraceSpan]:
    """Of each opcode that began."""
    for index, op_id in enumerate(row["opid"]):
        began, executed, end = (to_seconds(row[name][index]) for name in ("opstart", "opexec", "opend"))
        if began is None:
            continue
        status = outcome.statuses[index]
        yield made.span(
            _op_name(op_id),
            f"opcode {index}",
            root,
            (began, root.end if end is None else end),
            {
                "gantry.opcode.id": op_id,
                "gantry.opcode.index": index,
                "gantry.opcode.status": status,
                "gantry.opcode.summary": _cut(outcome.summaries[index]),
            },
            _is_success(status),
            failure=_cut(result_text(outcome.results[index])) if status == "error" else "",
            events={} if executed is None else {"locks held": executed},
        )


def _wait_spans(
    made: "_Maker", waits: Sequence[WaitSpan], root: TraceSpan, opcodes: Sequence[TraceSpan]
) -> Iterator[TraceSpan]:
    for wait in waits:
        cause = wait.cause
        optional: dict[str, Value] = {
            "gantry.wait.jobs": list(cause.job_ids),
            "gantry.wait.names": list(cause.names),
            "gantry.wait.owners": list(cause.owners),
        }
        end = root.end if wait.until is None else wait.until
        opcode = _opcode_within(opcodes, wait.since, end) if cause.kind is WaitKind.LOCKS else None
        # the clock was read for the wait first
        since = wait.since if opcode is None else max(wait.since, opcode.start)
        yield made.span(
            f"wait {cause.kind.value}",
            f"wait {cause.kind.value} {wait.since!r}",
            opcode or root,
            (since, end),
            {
                "gantry.wait.kind": cause.kind.value,
                "gantry.wait.reason": _cut(cause_words(cause)),
                **{name: value for name, value in optional.items() if value},
            },
        )


def _opcode_within(opcodes: Sequence[TraceSpan], since: float, until: float) -> TraceSpan | None:
    """The opcode that was under way for the longest part of a period; None: none was."""

    def shared_s(opcode: TraceSpan) -> float:
        return min(opcode.end, until) - max(opcode.start, since)

    return max((each for each in opcodes if shared_s(each) > 0), key=shared_s, default=None)


class _Maker:
    """Makes the spans of one job."""

    def __init__(self, cluster: TracedCluster, job_id: int, parent: TraceParent | None) -> None:
        self._identity = f"{cluster.uuid}/{job_id}"
        self._remote = parent
        self._trace_id = self._digits("trace", 32) if parent is None else parent.trace_id

    def span(
        self,
        name: str,
        identity: str,
        parent: TraceSpan | None,
        period: tuple[float, float],
        attributes: Mapping[str, Value],
        is_success: bool | None = None,
        *,
        failure: str = "",
        events: Mapping[str, float] | None = None,
    ) -> TraceSpan:
        """Args: identity: of the span within its job. parent: None: it is the job's own."""
        remote = self._remote.span_id if self._remote is not None else None
        return TraceSpan(
            name,
            self._trace_id,
            self._digits(identity, 16),
            remote if parent is None else parent.span_id,
            parent is None and remote is not None,
            period[0],
            # a clock may have been set back
            max(period),
            attributes,
            is_success,
            failure,
            events or {},
        )

    def _digits(self, identity: str, count: int) -> str:
        return hashlib.sha256(f"gantry/{self._identity}/{identity}".encode()).hexdigest()[:count]


def _is_success(status: str) -> bool | None:
    return {"success": True, "error": False}.get(status)


def _op_name(op_id: object) -> str:
    return str(op_id).removeprefix("OP_")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
