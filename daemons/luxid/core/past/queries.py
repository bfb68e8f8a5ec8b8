"""Questions to the index of the history, as SQL: fields, conditions, days."""

import datetime
import enum
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.ids import JobId
from common.query.predicate import FilterError
from common.query.qlang import All, Always, Compare, Contains, Expression, IsTrue, Matches, Not, Order, Some, Value
from common.queue.jobs import JobState
from common.queue.terms import check_label
from common.schedules.times import zone_named
from protocol.luxi.history import EndedJob, Grouping, Past, PastSum, ReadHistory, Sorting, SummarizeHistory

# The fields of the history, as filters name them and as the index has them.
#
# Source: everyday.md section g; `protocol.luxi.history.EndedJob`.


LABEL: Final = "label."


class ValueKind(enum.Enum):
    """What a field holds."""

    TEXT = "a text"
    NUMBER = "a number"
    TRUTH = "true or false"


@attrs.frozen
class PastField:
    """A field: an expression of SQL, and its parameters."""

    kind: ValueKind
    sql: str
    params: tuple[str | int, ...] = ()


@attrs.frozen
class Eyes:
    """Whose eyes see the history. Args: uid: the user; None: one who sees all of every job."""

    uid: int | None

    def field(self, name: str) -> PastField:
        """Raises: FilterError: there is no such field."""
        if name.startswith(LABEL):
            return _label(name.removeprefix(LABEL))
        name = _ALIASES.get(name, name)
        private = _PRIVATE.get(name)
        if private is not None:
            return private if self.uid is None else PastField(private.kind, _OTHERS[name], (self.uid,))
        if name not in _PUBLIC:
            known = ", ".join((*_PUBLIC, *_PRIVATE, "label.KEY"))
            raise FilterError(f"there is no field {name!r} in the history; there are {known}")
        return _PUBLIC[name]


def _label(key: str) -> PastField:
    try:
        check_label(key, "")
    except InvalidRequest as error:
        raise FilterError(error.message) from None
    return PastField(ValueKind.TEXT, "json_extract(labels, ?)", (f'$."{key}"',))


_PUBLIC: Final[Mapping[str, PastField]] = {
    "id": PastField(ValueKind.NUMBER, "id"),
    "status": PastField(ValueKind.TEXT, "status"),
    "user": PastField(ValueKind.TEXT, "user"),
    "received": PastField(ValueKind.NUMBER, "received"),
    "eligible": PastField(ValueKind.NUMBER, "eligible"),
    "start": PastField(ValueKind.NUMBER, "start"),
    "end": PastField(ValueKind.NUMBER, '"end"'),
    "wait": PastField(ValueKind.NUMBER, "wait"),
    "run": PastField(ValueKind.NUMBER, "run"),
    "tries": PastField(ValueKind.NUMBER, "tries"),
    "node": PastField(ValueKind.TEXT, "node"),
    "batch": PastField(ValueKind.TEXT, "batch"),
    "archived": PastField(ValueKind.TRUTH, "(place > 0)"),
}
# what only the owner and operators see whole
_PRIVATE: Final[Mapping[str, PastField]] = {
    "name": PastField(ValueKind.TEXT, "(CASE WHEN name = '' THEN summary ELSE name END)"),
    "summary": PastField(ValueKind.TEXT, "summary"),
    "why": PastField(ValueKind.TEXT, "why"),
    "exit_code": PastField(ValueKind.NUMBER, "exit_code"),
}
_OTHERS: Final[Mapping[str, str]] = {
    "name": "(CASE WHEN name <> '' THEN name WHEN uid = ? THEN summary ELSE public_summary END)",
    "summary": "(CASE WHEN uid = ? THEN summary ELSE public_summary END)",
    "why": "(CASE WHEN uid = ? THEN why ELSE public_why END)",
    "exit_code": "(CASE WHEN uid = ? THEN exit_code END)",
}
# names of the list of jobs, and of the reply
_ALIASES: Final[Mapping[str, str]] = {
    **{f"{name}_{end}": name for name in ("received", "eligible", "start", "end") for end in ("ts", "at")},
    **{"wait_s": "wait", "run_s": "run", "exit": "exit_code", "summary_text": "summary", "is_archived": "archived"},
}


# Conditions on ended jobs, as SQL over the index of the history.
#
# Theory. The verdicts are those of queries (`common.query.predicate`): a condition on a field without a value is
# unknown, as SQL's NULL is, so both agree under every operator. A value of another kind than its field is refused
# before anything is read.
#
# Source: luxid.md 6.3; everyday.md section g.


Params = tuple[str | int | float, ...]
_SIGNS: Final = {
    Order.EQUAL: "=",
    Order.LESS: "<",
    Order.GREATER: ">",
    Order.AT_MOST: "<=",
    Order.AT_LEAST: ">=",
}
# numbers that SQLite takes for whole
_LARGEST: Final = 2**63 - 1


@attrs.frozen
class SqlCondition:
    """A condition in SQL."""

    sql: str
    params: Params = ()


_TRUE: Final = SqlCondition("1")


def condition_of(choice: Past, eyes: Eyes) -> SqlCondition:
    """What a choice of ended jobs asks.

    Raises: InvalidRequest, FilterError: its filter is malformed, or does not fit the fields.
    """
    parts = []
    if choice.since is not None:
        parts.append(SqlCondition('"end" >= ?', (choice.since,)))
    if choice.until is not None:
        parts.append(SqlCondition('"end" < ?', (choice.until,)))
    if choice.states:
        names = ", ".join("?" * len(choice.states))
        parts.append(SqlCondition(f"status IN ({names})", tuple(state.value for state in choice.states)))
    if choice.filter is not None:
        parts.append(_translated(Expression.from_wire(choice.filter), eyes))
    return _joined("AND", parts) if parts else _TRUE


def _translated(expression: Expression, eyes: Eyes) -> SqlCondition:
    match expression:
        case Always():
            return _TRUE
        case All(parts=parts):
            return _joined("AND", [_translated(part, eyes) for part in parts]) if parts else _TRUE
        case Some(parts=parts):
            return _any_of(parts, eyes) if parts else SqlCondition("0")
        case Not(part=part):
            inner = _translated(part, eyes)
            return SqlCondition(f"(NOT {inner.sql})", inner.params)
        case Compare(field=name, order=order, value=value):
            field = _of_kind(name, eyes, value)
            return SqlCondition(f"({field.sql} {_SIGNS[order]} ?)", (*field.params, value))
        case Matches(field=name, regex=regex):
            field = _of_kind(name, eyes, "")
            return SqlCondition(f"matches(?, {field.sql})", (regex.pattern, *field.params))
        case IsTrue(field=name):
            field = eyes.field(name)
            if field.kind is ValueKind.TEXT:
                # it is there and not empty; false, and not unknown, without the label: so `!` finds those without it
                return SqlCondition(f"(ifnull({field.sql}, '') <> '')", field.params)
            if field.kind is not ValueKind.TRUTH:
                raise FilterError(f"field {name!r} is not true or false but {field.kind.value}")
            return SqlCondition(field.sql, field.params)
        case Contains(field=name):
            raise FilterError(f"field {name!r} is not a list but {eyes.field(name).kind.value}")
        case _:
            raise InvalidRequest(f"no expression: {expression!r:.60}")


def _any_of(parts: Sequence[Expression], eyes: Eyes) -> SqlCondition:
    """Thousands of names are one look-up."""
    found = []
    for name, run in groupby(parts, _equal_field):
        same = list(run)
        if name is None or len(same) == 1:
            found += [_translated(part, eyes) for part in same]
        else:
            values = [part.value for part in same if isinstance(part, Compare)]
            field = eyes.field(name)
            for value in values:
                _of_kind(name, eyes, value)
            listed = orjson.dumps(values).decode()
            found.append(SqlCondition(f"({field.sql} IN (SELECT value FROM json_each(?)))", (*field.params, listed)))
    return _joined("OR", found)


def _equal_field(part: Expression) -> str | None:
    return part.field if isinstance(part, Compare) and part.order is Order.EQUAL else None


def _of_kind(name: str, eyes: Eyes, value: Value) -> PastField:
    """Raises: FilterError: the field is none, or cannot be compared with this value."""
    field = eyes.field(name)
    wanted = ValueKind.TEXT if isinstance(value, str) else ValueKind.NUMBER
    if field.kind is not wanted:
        raise FilterError(f"field {name!r} is {field.kind.value}, and cannot be compared with {value!r:.60}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise FilterError(f"the number {value} for field {name!r} is too large")
    return field


def _joined(word: str, parts: Sequence[SqlCondition]) -> SqlCondition:
    """Joined in halves: SQLite bounds how deep an expression may be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(word, parts[:half]), _joined(word, parts[half:])
    return SqlCondition(f"({left.sql} {word} {right.sql})", (*left.params, *right.params))


# The days of a time zone: which day an instant belongs to.


class DayNames:
    """Names days as `2026-11-21`. Raises: InvalidRequest: there is no such zone. Unavailable: it cannot be read now."""

    def __init__(self, zone: str) -> None:
        self._zone = zone_named(zone)
        # the quarter of an hour that was asked for last: ended jobs come in the order of their ends, mostly
        self._quarter: float | None = None
        self._name = ""

    def name(self, at: float | None) -> str | None:
        """The day of an instant in seconds since the epoch; None: there is no instant."""
        if at is None:
            return None
        # every zone changes its day, and its clock, at a whole quarter
        quarter = at // 900
        if quarter != self._quarter:
            self._quarter, self._name = quarter, self._day(at)
        return self._name

    def _day(self, at: float) -> str:
        try:
            return datetime.datetime.fromtimestamp(at, self._zone).date().isoformat()
        except (ValueError, OverflowError, OSError):
            # a clock or a file was far off
            return ""


# The questions to the index of the history, as SQL.
#
# Theory. SQLite sorts and sums without the interpreter's lock, so that the event loop goes on meanwhile; the naive twin
# of the sums in the tests does the same over lists. The 95th percentile is the nearest rank: of n sorted values the one
# at the place ceil(0.95 n); of fewer than `FEW` the largest.
#
# Source: everyday.md section g.


# values of fewer jobs have no percentile but the largest
FEW: Final = 20
# bounds of one reply
MOST_JOBS: Final = 20_000
MOST_GROUPS: Final = 1000
# SQLite takes no larger number
MOST_OFFSET: Final = 2**63 - 1
_SHOWN: Final = (
    *("id", "status", "name", "summary", "user"),
    *("received", "eligible", "start", "end", "wait", "run", "tries", "exit_code", "why", "node", "batch", "archived"),
)
_SORTED: Final[Mapping[Sorting, str]] = {sorting: sorting.value for sorting in Sorting}


def list_query(call: ReadHistory, eyes: Eyes) -> SqlCondition:
    """Select the rows for `ended_job`. Raises: InvalidRequest, FilterError."""
    if not 0 <= call.limit <= MOST_JOBS or not 0 <= call.offset <= MOST_OFFSET:
        raise InvalidRequest(
            f"limit must be 0 to {MOST_JOBS} and offset 0 to {MOST_OFFSET}, got {call.limit}, {call.offset}"
        )
    fields, chosen = [eyes.field(name) for name in _SHOWN], condition_of(call.choice, eyes)
    order, way = eyes.field(_SORTED[call.sort]), "ASC" if call.is_ascending else "DESC"
    sql = (
        f"SELECT {', '.join(field.sql for field in fields)}, labels FROM jobs WHERE {chosen.sql}"
        f" ORDER BY {order.sql} {way} NULLS LAST, id {way} LIMIT ? OFFSET ?"
    )
    shown = tuple(param for field in fields for param in field.params)
    return SqlCondition(sql, (*shown, *chosen.params, *order.params, call.limit, call.offset))


def count_query(call: ReadHistory, eyes: Eyes) -> SqlCondition:
    """Count the jobs of the choice. Raises: as `list_query`."""
    chosen = condition_of(call.choice, eyes)
    return SqlCondition(f"SELECT COUNT(*) FROM jobs WHERE {chosen.sql}", chosen.params)


def ended_job(row: Sequence[object], labels: Mapping[str, str]) -> EndedJob:
    """A row of `list_query`. Args: labels: its last column, read."""
    values = dict(zip(_SHOWN, row, strict=False))
    return EndedJob(
        JobId(_whole(values["id"])),
        JobState(values["status"]),
        str(values["name"]),
        str(values["summary"]),
        str(values["user"]),
        labels,
        received_at=_seconds(values["received"]),
        eligible_at=_seconds(values["eligible"]),
        start_at=_seconds(values["start"]),
        end_at=_seconds(values["end"]),
        wait_s=_seconds(values["wait"]),
        run_s=_seconds(values["run"]),
        tries=_whole(values["tries"]),
        exit_code=None if values["exit_code"] is None else _whole(values["exit_code"]),
        why=str(values["why"]),
        node=str(values["node"]),
        batch=str(values["batch"]),
        is_archived=bool(values["archived"]),
    )


def sum_queries(call: SummarizeHistory, eyes: Eyes) -> tuple[SqlCondition, SqlCondition, SqlCondition]:
    """Select the sums of each group, then its percentile of waits, and of runs; for `past_sums`.

    Raises: InvalidRequest, FilterError.
    """
    if not 1 <= call.limit <= MOST_GROUPS:
        raise InvalidRequest(f"limit must be 1 to {MOST_GROUPS}, got {call.limit}")
    group, chosen = _group(call, eyes), condition_of(call.choice, eyes)
    sums = (
        f"SELECT {group.sql} AS grouped, COUNT(*), SUM(status = 'error'), SUM(status = 'canceled'), SUM(tries > 1),"
        f" AVG(wait), AVG(run), MAX(run) FROM jobs WHERE {chosen.sql}"
        " GROUP BY grouped ORDER BY COUNT(*) DESC, grouped LIMIT ?"
    )
    params = (*group.params, *chosen.params)
    return (
        SqlCondition(sums, (*params, call.limit)),
        SqlCondition(_percentiles(group, chosen, "wait"), params),
        SqlCondition(_percentiles(group, chosen, "run"), params),
    )


def _percentiles(group: PastField, chosen: SqlCondition, column: str) -> str:
    return (
        f"SELECT grouped, value FROM (SELECT grouped, value, ROW_NUMBER() OVER (PARTITION BY grouped ORDER BY value)"
        " AS place, COUNT(*) OVER (PARTITION BY grouped) AS count FROM"
        f" (SELECT {group.sql} AS grouped, {column} AS value FROM jobs WHERE {chosen.sql}) WHERE value IS NOT NULL)"
        f" WHERE place = CASE WHEN count < {FEW} THEN count ELSE (count * 95 + 99) / 100 END"
    )


def past_sums(
    sums: Sequence[Sequence[object]], waits: Mapping[object, float], runs: Mapping[object, float]
) -> tuple[PastSum, ...]:
    """The results of `sum_queries`."""
    return tuple(
        PastSum(
            str(group),
            _whole(count),
            _whole(failed),
            _whole(canceled),
            _whole(retried),
            _seconds(mean_wait),
            waits.get(group),
            _seconds(mean_run),
            runs.get(group),
            _seconds(most_run),
        )
        for group, count, failed, canceled, retried, mean_wait, mean_run, most_run in sums
    )


def _group(call: SummarizeHistory, eyes: Eyes) -> PastField:
    if call.by is Grouping.DAY:
        return PastField(eyes.field("name").kind, "COALESCE(day_of(\"end\"), '')")
    field = eyes.field(f"{LABEL}{call.label}" if call.by is Grouping.LABEL else call.by.value)
    return PastField(field.kind, f"COALESCE({field.sql}, '')", field.params)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _seconds(value: object) -> float | None:
    return None if value is None else float(str(value))
