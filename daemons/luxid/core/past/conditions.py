"""Conditions on ended jobs, as SQL over the index of the history.

Theory. The verdicts are those of queries (`common.query.predicate`): a condition on a field without a value is
unknown, as SQL's NULL is, so both agree under every operator. A value of another kind than its field is refused before
anything is read.

Source: luxid.md 6.3; everyday.md section g.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import attrs
import orjson

from common.errors import InvalidRequest
from common.query.predicate import FilterError
from common.query.qlang import All, Always, Compare, Contains, Expression, IsTrue, Matches, Not, Order, Some, Value
from daemons.luxid.core.past.pastfields import Eyes, Kind, PastField
from protocol.luxi.history import Past

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
class Condition:
    """A condition in SQL."""

    sql: str
    params: Params = ()


_TRUE: Final = Condition("1")


def condition_of(choice: Past, eyes: Eyes) -> Condition:
    """What a choice of ended jobs asks.

    Raises: InvalidRequest, FilterError: its filter is malformed, or does not fit the fields.
    """
    parts = []
    if choice.since is not None:
        parts.append(Condition('"end" >= ?', (choice.since,)))
    if choice.until is not None:
        parts.append(Condition('"end" < ?', (choice.until,)))
    if choice.states:
        names = ", ".join("?" * len(choice.states))
        parts.append(Condition(f"status IN ({names})", tuple(state.value for state in choice.states)))
    if choice.filter is not None:
        parts.append(_translated(Expression.from_wire(choice.filter), eyes))
    return _joined("AND", parts) if parts else _TRUE


def _translated(expression: Expression, eyes: Eyes) -> Condition:
    match expression:
        case Always():
            return _TRUE
        case All(parts=parts):
            return _joined("AND", [_translated(part, eyes) for part in parts]) if parts else _TRUE
        case Some(parts=parts):
            return _any_of(parts, eyes) if parts else Condition("0")
        case Not(part=part):
            inner = _translated(part, eyes)
            return Condition(f"(NOT {inner.sql})", inner.params)
        case Compare(field=name, order=order, value=value):
            field = _of_kind(name, eyes, value)
            return Condition(f"({field.sql} {_SIGNS[order]} ?)", (*field.params, value))
        case Matches(field=name, regex=regex):
            field = _of_kind(name, eyes, "")
            return Condition(f"matches(?, {field.sql})", (regex.pattern, *field.params))
        case IsTrue(field=name):
            field = eyes.field(name)
            if field.kind is Kind.TEXT:
                # it is there and not empty; false, and not unknown, without the label: so `!` finds those without it
                return Condition(f"(ifnull({field.sql}, '') <> '')", field.params)
            if field.kind is not Kind.TRUTH:
                raise FilterError(f"field {name!r} is not true or false but {field.kind.value}")
            return Condition(field.sql, field.params)
        case Contains(field=name):
            raise FilterError(f"field {name!r} is not a list but {eyes.field(name).kind.value}")
        case _:
            raise InvalidRequest(f"no expression: {expression!r:.60}")


def _any_of(parts: Sequence[Expression], eyes: Eyes) -> Condition:
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
            found.append(Condition(f"({field.sql} IN (SELECT value FROM json_each(?)))", (*field.params, listed)))
    return _joined("OR", found)


def _equal_field(part: Expression) -> str | None:
    return part.field if isinstance(part, Compare) and part.order is Order.EQUAL else None


def _of_kind(name: str, eyes: Eyes, value: Value) -> PastField:
    """Raises: FilterError: the field is none, or cannot be compared with this value."""
    field = eyes.field(name)
    wanted = Kind.TEXT if isinstance(value, str) else Kind.NUMBER
    if field.kind is not wanted:
        raise FilterError(f"field {name!r} is {field.kind.value}, and cannot be compared with {value!r:.60}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise FilterError(f"the number {value} for field {name!r} is too large")
    return field


def _joined(word: str, parts: Sequence[Condition]) -> Condition:
    """Joined in halves: SQLite bounds how deep an expression may be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _joined(word, parts[:half]), _joined(word, parts[half:])
    return Condition(f"({left.sql} {word} {right.sql})", (*left.params, *right.params))
