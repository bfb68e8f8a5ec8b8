"""Everything about one job, as its page shows it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.queue.dependencies import Dependency
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.queue.waithistory import Span
from common.words.ends import end_words
from common.words.fields import Row, field_of, shown_status
from common.words.outcome import WITHHELD, outcome_of
from common.words.text import json_text
from common.words.times import bare_clock, duration, precise_clock, to_seconds
from common.words.usage import usage_of, usage_words
from common.words.usernames import UserName
from common.words.why.waits import waited_words
from daemons.rapid.page.drawing.timeline import Life
from daemons.rapid.page.views.links import Piece, job_href, linked
from daemons.rapid.page.views.lives import LaneBy, lives
from daemons.rapid.page.views.lockview import LockLine, Waiter
from daemons.rapid.page.views.termview import TryView, label_pieces, term_facts, try_views
from daemons.rapid.page.views.whytext import why_lines

# luxid's fields for the page of a job
JOB_FIELDS: Final = (
    *(
        "id",
        "status",
        "priority",
        "archived",
        "user",
        "node",
        "summary",
        "ops",
        "opid",
        "opresult",
        "opstatus",
        "oplog",
    ),
    *("opstart", "opexec", "opend", "oppriority", "received_ts", "start_ts", "end_ts"),
    *("name", "labels", "begin_ts", "hold", "uses", "tries", "batch"),
)
# parameters that have places of their own on the page
_APART: Final = ("OP_ID", "reason", "depends", "depend")


@attrs.frozen
class OpcodeView:
    place: int
    op_id: str
    summary: str
    # as users read it
    status: str
    # (title, instant)
    times: tuple[tuple[str, str], ...]
    # (name, value)
    parameters: tuple[tuple[str, str], ...]
    # "": none yet
    result: str
    # (instant, text)
    log: tuple[tuple[str, str], ...]
    # those before the last one
    tries: tuple[TryView, ...]


@attrs.frozen
class DependencyView:
    job: Piece
    # final states of it that are wanted
    wanted: str


@attrs.frozen
class JobView:
    job_id: int
    status: str
    # its name, else what it runs
    what: str
    # "": it has no name
    summary: str
    labels: tuple[Piece, ...]
    is_held: bool
    user: str
    priority: str
    is_archived: bool
    is_final: bool
    # how long it ran or has been running; before its start, how long it has been waiting
    time: str
    # (title, text)
    facts: tuple[tuple[str, str], ...]
    # why it does not run, or did not succeed; a line each
    why: tuple[tuple[Piece, ...], ...]
    # what it waited for so far; empty: it did not wait
    waited: tuple[Piece, ...]
    life: Life | None
    opcodes: tuple[OpcodeView, ...]
    # (source, reason, instant), each once
    trail: tuple[tuple[str, str, str], ...]
    depends_on: tuple[DependencyView, ...]
    awaited_by: tuple[Waiter, ...]
    locks: tuple[LockLine, ...]


@attrs.frozen
class Told:
    """What luxid tells of a job."""

    row: Row
    # None: it is not live
    reasons: Sequence[Reason] | None
    spans: Sequence[Span]
    # those that it holds or waits for
    locks: tuple[LockLine, ...]
    awaited_by: tuple[Waiter, ...]


def job_view(told: Told, now: float, user_name: UserName) -> JobView:
    """The page of a job that exists."""
    row = told.row
    drawn = lives([row], LaneBy.JOB, now)
    return JobView(
        row["id"],
        shown_status(row["status"]),
        row["name"] or ", ".join(row["summary"]),
        ", ".join(row["summary"]) if row["name"] else "",
        label_pieces(row["labels"] or {}),
        row["hold"] is not None,
        row["user"] or "",
        field_of("priority").show(row, now),
        bool(row["archived"]),
        row["status"] in FINAL_NAMES,
        field_of("time").show(row, now),
        (*term_facts(row, now), *_facts(row)),
        _why(told, now, user_name),
        linked(waited_words(told.spans, now) or ""),
        drawn[0] if drawn else None,
        tuple(_opcode(row, place) for place in range(len(row["ops"] or ()))),
        tuple(dict.fromkeys(_trail(row))),
        tuple(dict.fromkeys(_dependencies(row))),
        told.awaited_by,
        told.locks,
    )


def _why(told: Told, now: float, user_name: UserName) -> tuple[tuple[Piece, ...], ...]:
    if told.row["status"] in FINAL_NAMES:
        ended = end_words(outcome_of(told.row), user_name)
        return (linked(ended),) if ended else ()
    return why_lines(told.reasons, now)


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    received, start, end = (to_seconds(row[name]) for name in ("received_ts", "start_ts", "end_ts"))
    if row["node"]:
        yield "node", row["node"]
    yield "received", "unknown" if received is None else bare_clock(received)
    yield "started", "not yet" if start is None and row["status"] not in FINAL_NAMES else _after(start, received)
    if row["status"] in FINAL_NAMES:
        yield "ended", _after(end, start)
    if (usage := usage_of(row["opresult"])) is not None:
        yield "used", usage_words(usage)


def _after(at: float | None, before: float | None) -> str:
    if at is None:
        return "never"
    return bare_clock(at) if before is None else f"{bare_clock(at)}, {duration(at - before)} later"


def _opcode(row: Row, place: int) -> OpcodeView:
    op = row["ops"][place]
    stamps = (("asked for locks", "opstart"), ("executed", "opexec"), ("ended", "opend"))
    return OpcodeView(
        place + 1,
        str(op.get("OP_ID", "")),
        row["summary"][place],
        shown_status(row["opstatus"][place]),
        tuple(_times(row, place, stamps)),
        tuple((key, _value(op[key])) for key in sorted(op) if key not in _APART),
        _result(row, place),
        tuple((_instant(at), _value(message)) for _, at, _, message in row["oplog"][place]),
        try_views(row, place),
    )


def _times(row: Row, place: int, stamps: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    values: Mapping[str, object] = row
    for title, name in stamps:
        stamped = values[name]
        at = to_seconds(stamped[place]) if isinstance(stamped, list | tuple) else None
        if at is not None:
            yield title, precise_clock(at)


def _result(row: Row, place: int) -> str:
    result, status = (row["opresult"] or ())[place], row["opstatus"][place]
    if result is None:
        is_withheld = status == "error" or (row["opexec"][place] is not None and row["opid"][place] == "OP_RUN_COMMAND")
        return WITHHELD if is_withheld and status in FINAL_NAMES else ""
    return _value(result)


def _trail(row: Row) -> Iterator[tuple[str, str, str]]:
    for op in row["ops"] or ():
        entries = op.get("reason")
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case [source, reason, int() as at_ns]:
                    yield str(source), str(reason), bare_clock(at_ns / 1e9)
                case _:
                    pass


def _dependencies(row: Row) -> Iterator[DependencyView]:
    for op in row["ops"] or ():
        depends = op.get("depends")
        for each in depends if isinstance(depends, list) else ():
            try:
                dependency = Dependency.from_wire(each)
            except InvalidRequest:
                continue
            wanted = " or ".join(state.value for state in dependency.wanted) or "success or error"
            yield DependencyView(Piece(f"job/{dependency.job_id}", job_href(dependency.job_id)), wanted)


def _instant(stamp: object) -> str:
    seconds = to_seconds(stamp)
    return "" if seconds is None else precise_clock(seconds)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json_text(value)
