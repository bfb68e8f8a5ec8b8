"""Everything about one job, as its page shows it."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.errors import InvalidRequest
from common.printable import json_text
from common.queue.explanation import HeldByRule, LevelWeight, LimitFull, LockChain, Reason, Span, WaitsForLock
from common.queue.jobs import FINAL_NAMES, Dependency
from common.words.fields import JobRow, field_of, shown_status, usage_of, usage_words, wire_fields
from common.words.outcome import WITHHELD, Outcome, UserName, end_words, outcome_of
from common.words.times import bare_clock, duration, precise_clock, to_seconds
from common.words.why import in_short, in_words, waited_words, worth_telling
from daemons.rapid.page.drawing import BarPhase, JobBar, Stretch
from daemons.rapid.page.views.frame import (
    Choice,
    TextPart,
    job_href,
    linked,
    lock_href,
    rule_href,
    shortened,
    with_query,
)
from daemons.rapid.page.views.things import LockLine, Waiter
from protocol.luxi.history import EndedJob, PastSum

# What submitters and operators said of a job, and the tries of its commands, as pages show them.


@attrs.frozen
class TryView:
    """A try that failed."""

    number: str
    # when it began and how long it took
    time: str
    why: str
    # when the next one begins
    next: str
    # page with the output of this try alone
    output: str


def label_pieces(labels: Mapping[str, str]) -> tuple[TextPart, ...]:
    """The labels, each with the list of the jobs that have it, too."""
    return tuple(TextPart(f"{key}={value}" if value else key, _having(key, value)) for key, value in labels.items())


def _having(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return with_query("/ui/jobs", [("where", f'label.{key}="{escaped}"')])


def term_facts(row: JobRow, now: float) -> Iterator[tuple[str, str]]:
    """(title, text) for each term but name and labels."""
    begin = to_seconds(row["begin_ts"])
    if begin is not None:
        told = bare_clock(begin)
        yield "begins", f"{told}, in {duration(begin - now)}" if begin > now else f"not before {told}"
    hold = row["hold"]
    if hold is not None:
        at = hold["at"]
        since = f" since {bare_clock(at)}" if isinstance(at, int | float) and at else ""
        why = f": {hold['why']}" if hold["why"] else ""
        yield "on hold", f"by {hold['by'] or 'somebody'}{since}{why}"
    if row["uses"]:
        yield "uses", ", ".join(f"{count} of {key}" for key, count in row["uses"].items())


def try_views(row: JobRow, place: int) -> tuple[TryView, ...]:
    """The tries of an opcode before the last one. Args: place: of the opcode, from 0."""
    tries = row["tries"] or ()
    return tuple(_try(row["id"], each) for each in (tries[place] if place < len(tries) else ()))


def _try(job_id: int, told: Mapping[str, object]) -> TryView:
    begin, end, after = (_number(told.get(name)) for name in ("start", "end", "next"))
    number = told.get("n")
    return TryView(
        str(number),
        f"{precise_clock(begin)}, {duration(end - begin)}",
        str(told.get("why", "")),
        bare_clock(after),
        with_query(job_href(job_id), [("try", number)]),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# The jobs of a timeline, from luxid's rows.


# luxid's fields for a bar
LIFE_FIELDS: Final = (
    *wire_fields(("id", "status", "time", "user", "summary", "opid", "name")),
    "opstart",
    "opexec",
    "opend",
)
# seconds that a window shows at least, and at most
SHORTEST_S: Final = 60.0
LONGEST_S: Final = 6 * 3600.0
_LABEL_LENGTH: Final = 60


class LaneBy(enum.Enum):
    """What the jobs of one lane have in common."""

    JOB = "job"
    OPCODE = "opcode"
    USER = "user"


def lives(rows: Sequence[JobRow], by: LaneBy, now: float) -> list[JobBar]:
    """The jobs as the timeline draws them; jobs that do not exist are left out."""
    made = (_life(row, by, now) for row in rows if row["status"])
    return [life for life in made if life.stretches]


def window(drawn: Sequence[JobBar], now: float, shortest_s: float = SHORTEST_S) -> tuple[float, float]:
    """The part of time that shows these jobs: (since, until)."""
    first = min((life.since for life in drawn), default=now)
    since = min(max(first, now - LONGEST_S), now - shortest_s)
    return since - (now - since) * 0.01, now


def _life(row: JobRow, by: LaneBy, now: float) -> JobBar:
    what = row.get("name") or ", ".join(row["summary"])
    status = shown_status(row["status"])
    told = f"job {row['id']}, {status} ({field_of('time').show(row, now)}): {what}"
    return JobBar(row["id"], _lane(row, by, what), told, status, tuple(_stretches(row, now)))


def _lane(row: JobRow, by: LaneBy, what: str) -> str:
    match by:
        case LaneBy.JOB:
            # what is in its brackets says enough of a command
            said = what.removeprefix("RUN_COMMAND(").removesuffix(")") if what.startswith("RUN_COMMAND(") else what
            return f"{row['id']} {said[:_LABEL_LENGTH]}"
        case LaneBy.OPCODE:
            return next(iter(row["opid"]), "").removeprefix("OP_")
        case LaneBy.USER:
            return row["user"] or "unknown"
    assert_never(by)


def _stretches(row: JobRow, now: float) -> Iterator[Stretch]:
    """It waits until an opcode is executed, and from the end of one opcode to the execution of the next."""
    at = to_seconds(row["received_ts"])
    if at is None:
        return
    is_ended = row["status"] in FINAL_NAMES
    ended = to_seconds(row["end_ts"]) if is_ended else None
    last = now if not is_ended else at if ended is None else ended
    for begun, done in zip(row["opexec"], row["opend"], strict=False):
        since, until = to_seconds(begun), to_seconds(done)
        if since is None:
            break
        until = last if until is None else until
        if since > at:
            yield Stretch(BarPhase.WAIT, at, since)
        yield Stretch(BarPhase.RUN, since, max(since, until))
        at = max(since, until)
    if at < last or (is_ended and row["start_ts"] is None):
        yield Stretch(BarPhase.WAIT, at, max(at, last))


# Why jobs do not run, in words with links to what stops them.


def why_short(reasons: Sequence[Reason] | None, now: float) -> tuple[TextPart, ...]:
    """One line; empty: nothing lasting stops the job."""
    return shortened(linked(in_short(reasons or (), now), dict(_names(reasons or ()))))


def why_lines(reasons: Sequence[Reason] | None, now: float) -> tuple[tuple[TextPart, ...], ...]:
    """A line for each reason."""
    names = dict(_names(reasons or ()))
    return tuple(linked(in_words(reason, now), names) for reason in worth_telling(reasons or ()))


def _names(reasons: Sequence[Reason]) -> Iterator[tuple[str, str]]:
    """The locks and rules that the words name, and where they lead."""
    for reason in reasons:
        if isinstance(reason, WaitsForLock):
            yield from _locks(str(reason.lock), *(str(held.lock) for held in reason.holders))
        elif isinstance(reason, LockChain):
            for wait in reason.waits:
                yield from _locks(str(wait.lock), *(str(held.lock) for held in wait.holders))
        elif isinstance(reason, LevelWeight):
            yield from _locks(*(str(held.lock) for held in reason.held))
        elif isinstance(reason, HeldByRule):
            yield reason.uuid, rule_href(reason.uuid)
        elif isinstance(reason, LimitFull):
            yield reason.name, "/ui/filters#buckets" if reason.is_bucket else rule_href(reason.name)


def _locks(*names: str) -> Iterator[tuple[str, str]]:
    return ((name, lock_href(name)) for name in names)


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
    job: TextPart
    # final states of it that are wanted
    wanted: str


@attrs.frozen
class JobPageView:
    job_id: int
    status: str
    # its name, else what it runs
    what: str
    # "": it has no name
    summary: str
    labels: tuple[TextPart, ...]
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
    why: tuple[tuple[TextPart, ...], ...]
    # what it waited for so far; empty: it did not wait
    waited: tuple[TextPart, ...]
    life: JobBar | None
    opcodes: tuple[OpcodeView, ...]
    # (source, reason, instant), each once
    trail: tuple[tuple[str, str, str], ...]
    depends_on: tuple[DependencyView, ...]
    awaited_by: tuple[Waiter, ...]
    locks: tuple[LockLine, ...]


@attrs.frozen
class JobFacts:
    """What luxid tells of a job."""

    row: JobRow
    # None: it is not live
    reasons: Sequence[Reason] | None
    spans: Sequence[Span]
    # those that it holds or waits for
    locks: tuple[LockLine, ...]
    awaited_by: tuple[Waiter, ...]


def job_view(told: JobFacts, now: float, user_name: UserName) -> JobPageView:
    """The page of a job that exists."""
    row = told.row
    drawn = lives([row], LaneBy.JOB, now)
    return JobPageView(
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


def _why(told: JobFacts, now: float, user_name: UserName) -> tuple[tuple[TextPart, ...], ...]:
    if told.row["status"] in FINAL_NAMES:
        ended = end_words(outcome_of(told.row), user_name)
        return (linked(ended),) if ended else ()
    return why_lines(told.reasons, now)


def _facts(row: JobRow) -> Iterator[tuple[str, str]]:
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


def _opcode(row: JobRow, place: int) -> OpcodeView:
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


def _times(row: JobRow, place: int, stamps: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    values: Mapping[str, object] = row
    for title, name in stamps:
        stamped = values[name]
        at = to_seconds(stamped[place]) if isinstance(stamped, list | tuple) else None
        if at is not None:
            yield title, precise_clock(at)


def _result(row: JobRow, place: int) -> str:
    result, status = (row["opresult"] or ())[place], row["opstatus"][place]
    if result is None:
        is_withheld = status == "error" or (row["opexec"][place] is not None and row["opid"][place] == "OP_RUN_COMMAND")
        return WITHHELD if is_withheld and status in FINAL_NAMES else ""
    return _value(result)


def _trail(row: JobRow) -> Iterator[tuple[str, str, str]]:
    for op in row["ops"] or ():
        entries = op.get("reason")
        for entry in entries if isinstance(entries, list) else ():
            match entry:
                case [source, reason, int() as at_ns]:
                    yield str(source), str(reason), bare_clock(at_ns / 1e9)
                case _:
                    pass


def _dependencies(row: JobRow) -> Iterator[DependencyView]:
    for op in row["ops"] or ():
        depends = op.get("depends")
        for each in depends if isinstance(depends, list) else ():
            try:
                dependency = Dependency.from_wire(each)
            except InvalidRequest:
                continue
            wanted = " or ".join(state.value for state in dependency.wanted) or "success or error"
            yield DependencyView(TextPart(f"job/{dependency.job_id}", job_href(dependency.job_id)), wanted)


def _instant(stamp: object) -> str:
    seconds = to_seconds(stamp)
    return "" if seconds is None else precise_clock(seconds)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json_text(value)


# A job as a row of a list.


# luxid's fields for a row
ROW_FIELDS: Final = (*wire_fields(("id", "status", "priority", "time", "user", "summary")), "name", "labels")


@attrs.frozen
class JobLine:
    job_id: int
    # as users read it
    status: str
    # its name, else what it runs
    what: str
    summary: str
    labels: tuple[TextPart, ...]
    user: str
    priority: str
    received: str
    # how long it ran or has been running; before its start, how long it has been waiting
    time: str
    # why it waits, or why it did not succeed
    why: tuple[TextPart, ...]


def job_line(
    row: JobRow, reasons: Sequence[Reason] | None, outcome: Outcome | None, now: float, user_name: UserName
) -> JobLine:
    """Args:
    reasons: why it does not run; None: it is not live, or was not asked for.
    outcome: of a job that has not succeeded; None: it has, or was not asked for.
    """
    received = to_seconds(row["received_ts"])
    ended = end_words(outcome, user_name) if outcome is not None else None
    return JobLine(
        row["id"],
        shown_status(row["status"]),
        row["name"] or ", ".join(row["summary"]),
        ", ".join(row["summary"]),
        label_pieces(row["labels"] or {}),
        row["user"] or "",
        field_of("priority").show(row, now),
        "" if received is None else bare_clock(received),
        field_of("time").show(row, now),
        linked(ended) if ended else why_short(reasons, now),
    )


def job_lines(
    rows: Sequence[JobRow],
    reasons: Mapping[int, Sequence[Reason] | None],
    outcomes: Mapping[int, Outcome],
    now: float,
    user_name: UserName,
) -> tuple[JobLine, ...]:
    """The rows in this order; jobs that do not exist are left out."""
    return tuple(
        job_line(row, reasons.get(row["id"]), outcomes.get(row["id"]), now, user_name) for row in rows if row["status"]
    )


# Ended jobs and sums over them, as the page of the history shows them.


@attrs.frozen
class PastLine:
    job_id: int
    href: str
    status: str
    name: str
    summary: str
    labels: tuple[TextPart, ...]
    user: str
    ended: str
    wait: str
    run: str
    tries: int
    why: str


@attrs.frozen
class SumLine:
    group: str
    count: int
    failed: int
    canceled: int
    retried: int
    # mean wait, 95th of 100, mean run, 95th of 100, longest
    times: tuple[str, ...]

    @property
    def percent(self) -> int:
        return round(100 * self.failed / self.count) if self.count else 0


@attrs.frozen
class PastView:
    """The choice of ended jobs, and what it finds."""

    since: str
    where: str
    # why the choice cannot be used; "": it can
    wrong: str
    by: str
    choices: tuple[Choice, ...]
    sums: tuple[SumLine, ...]
    told: str
    lines: tuple[PastLine, ...]
    # addresses of the first and the next page; None: it is this one, there is none
    first: str | None
    older: str | None


def past_lines(jobs: Sequence[EndedJob]) -> tuple[PastLine, ...]:
    return tuple(
        PastLine(
            job.id,
            job_href(job.id),
            job.status.value,
            job.name,
            job.summary,
            label_pieces(job.labels),
            job.user,
            "" if job.end_at is None else bare_clock(job.end_at),
            _lasting(job.wait_s),
            _lasting(job.run_s),
            job.tries,
            job.why,
        )
        for job in jobs
    )


def sum_lines(sums: Sequence[PastSum]) -> tuple[SumLine, ...]:
    return tuple(
        SumLine(
            each.group or "-",
            each.count,
            each.failed,
            each.canceled,
            each.retried,
            tuple(map(_lasting, (each.mean_wait_s, each.p95_wait_s, each.mean_run_s, each.p95_run_s, each.most_run_s))),
        )
        for each in sums
    )


def _lasting(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
