"""Compile expressions of the query language into functions that test a thing.

There are two customs (`QUERY`, `PREDICATE`). A query that compares values of different kinds is a mistake, and its
author should hear of it. A filter rule has no author to tell, so it just does not match.

They also differ for a field without a value. A rule takes a condition on it as false, and its negation as
true. In a query that would be a guess: the unknown free memory of a node may or may not be above 1000.
Therefore the verdict there is *unknown* (`common.query.predicate`). A thing whose whole verdict is unknown does not
match, negated or not, and the caller is told which fields were missing.

Source: luxid.md 6.3, 7.2; DESIGN section 11 (every operator works in every predicate).
"""

import enum
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final, Generic, TypeVar

import attrs

from common.errors import GantryError
from common.query.qlang import All, Always, Compare, Contains, Expression, IsTrue, Matches, Not, Order, Some, Value

# Verdicts with three values: true, false, and unknown (None).
#
# This is Kleene's logic, as in SQL: a verdict is unknown if it depends on an unknown value.


Verdict = bool | None


def negated(verdict: Verdict) -> Verdict:
    """The negation; of unknown it is unknown."""
    return None if verdict is None else not verdict


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """False at the first false verdict, and the rest is not evaluated; else unknown if any is; true without any."""
    found: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            found = None
    return found


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True at the first true verdict, and the rest is not evaluated; else unknown if any is; false without any."""
    found: Verdict = False
    for verdict in verdicts:
        if verdict is True:
            return True
        if verdict is None:
            found = None
    return found


T = TypeVar("T")
K = TypeVar("K")
Test = Callable[[T], bool]


class FilterError(GantryError):
    """the filter does not fit the fields"""

    code = "invalid"
    wire_name = "ParameterError"


class NoValue(enum.Enum):
    """The value of a field that a thing lacks."""

    NO_VALUE = "no value"


NO_VALUE: Final = NoValue.NO_VALUE


@attrs.frozen
class Field(Generic[T]):
    """Reads the value of a field from a thing: JSON-able, or NO_VALUE."""

    read: Callable[[T], object]
    # further values that `==` takes as equal to a value: the short forms of a host name
    aliases: Callable[[object], Iterable[Value]] | None = None


@attrs.frozen(kw_only=True)
class Custom:
    """How to treat values that do not fit."""

    # whether values of different kinds have an order (null < bool < number < string < list < object), or are a mistake
    compares_kinds: bool
    # verdict of a condition on a field without a value; None: unknown
    without_value: Verdict
    # whether the caller hears of a mistake; else it makes the whole expression false, also under `!`
    raises: bool


QUERY: Final = Custom(compares_kinds=False, without_value=None, raises=True)
PREDICATE: Final = Custom(compares_kinds=True, without_value=False, raises=False)

_KINDS: Final = ("null", "a bool", "a number", "a string", "a list", "an object")
_ORDERS: Final[dict[Order, Callable[[Any, Any], bool]]] = {
    Order.EQUAL: operator.eq,
    Order.LESS: operator.lt,
    Order.GREATER: operator.gt,
    Order.AT_MOST: operator.le,
    Order.AT_LEAST: operator.ge,
}


def compile_expression(
    expression: Expression,
    fields: Callable[[str], Field[T] | None],
    custom: Custom = QUERY,
    missing: Callable[[str], None] | None = None,
) -> Test[T]:
    """Compile an expression into a function that tells whether it holds for a thing.

    Args:
        fields: returns the field of a name; None: the field does not exist.
        missing: called with each field whose missing value made the verdict unknown.
    Returns:
        The function. It raises FilterError, or never, by the custom; only evaluated parts can be mistakes:
        `&` stops at a false part, and `|` at a true one.
    Raises: FilterError: a field is unknown, and the custom raises.
    Cost: of the function: linear in the expression, but a run of `==` on one field under `|` is
        one look-up, as when thousands of ids are named.
    """
    lacking: list[str] = []
    judge = _Compiler(fields, custom, lacking.append).compile(expression)
    if not custom.raises:
        return _forgiving(judge)
    for name in expression.field_names():
        if fields(name) is None:
            raise FilterError(f"there is no field {name!r} to filter by")
    return _telling(judge, lacking, missing or (lambda _: None))


def _forgiving(judge: Callable[[T], Verdict]) -> Test[T]:
    def holds(thing: T) -> bool:
        try:
            return judge(thing) is True
        except FilterError:
            return False

    return holds


def _telling(judge: Callable[[T], Verdict], lacking: list[str], missing: Callable[[str], None]) -> Test[T]:
    """Args: lacking: collects the names of fields without a value while a thing is judged."""

    def holds(thing: T) -> bool:
        lacking.clear()
        verdict = judge(thing)
        if verdict is None:
            for name in dict.fromkeys(lacking):
                missing(name)
        return verdict is True

    return holds


@attrs.frozen
class _Compiler(Generic[T]):
    _fields: Callable[[str], Field[T] | None]
    _custom: Custom
    _lacking: Callable[[str], None]

    def compile(self, expression: Expression) -> Callable[[T], Verdict]:
        match expression:
            case Always():
                return lambda _: True
            case All(parts=parts):
                every = [self.compile(part) for part in parts]
                return lambda thing: all_of(judge(thing) for judge in every)
            case Some(parts=parts):
                return self._some(parts)
            case Not(part=part):
                inner = self.compile(part)
                return lambda thing: negated(inner(thing))
            case Compare(field=name, order=order, value=value):
                return self._equal(name, (value,)) if order is Order.EQUAL else self._compare(name, order, value)
            case Contains(field=name, value=value):
                return self._on(name, lambda found: self._contains(name, found, value))
            case IsTrue(field=name):
                return self._on(name, lambda found: _wanted(name, found, bool, "true or false"))
            case Matches(field=name, regex=regex):
                return self._on(name, lambda found: regex.is_in(_wanted(name, found, str, "text")))
            case _:
                raise TypeError(f"no expression: {expression!r}")

    def _some(self, parts: Sequence[Expression]) -> Callable[[T], Verdict]:
        some: list[Callable[[T], Verdict]] = []
        for key, run in groupby(parts, _equality):
            if key is None:
                some += [self.compile(part) for part in run]
            else:
                some.append(self._equal(key[0], [part.value for part in run if isinstance(part, Compare)]))
        return some[0] if len(some) == 1 else lambda thing: any_of(judge(thing) for judge in some)

    def _on(self, name: str, judge: Callable[[object], bool]) -> Callable[[T], Verdict]:
        """A test of one field's value."""
        field = self._fields(name)
        if field is None:
            return _unknown(name)
        read, without_value, lacking = field.read, self._custom.without_value, self._lacking

        def verdict(thing: T) -> Verdict:
            found = read(thing)
            if found is not NO_VALUE:
                return judge(found)
            lacking(name)
            return without_value

        return verdict

    def _equal(self, name: str, values: Sequence[Value]) -> Callable[[T], Verdict]:
        """A test whether the field has one of these values, which are of one kind."""
        wanted, rank = frozenset(values), _rank(values[0])
        field = self._fields(name)
        aliases = field.aliases if field is not None else None

        def judge(found: object) -> bool:
            if _rank(found) != rank:
                return self._differ(name, found, values[0])
            return found in wanted or (aliases is not None and not wanted.isdisjoint(aliases(found)))

        return self._on(name, judge)

    def _compare(self, name: str, order: Order, value: Value) -> Callable[[T], Verdict]:
        holds, rank = _ORDERS[order], _rank(value)

        def judge(found: object) -> bool:
            if _rank(found) == rank:
                return holds(found, value)
            return self._differ(name, found, value) or holds(_rank(found), rank)

        return self._on(name, judge)

    def _contains(self, name: str, found: object, value: Value) -> bool:
        items = _wanted(name, found, list, "a list")
        rank = _rank(value)
        for item in items:
            if _rank(item) != rank:
                self._differ(name, item, value)
        return any(_rank(item) == rank and item == value for item in items)

    def _differ(self, name: str, found: object, value: Value) -> bool:
        """Values of two kinds are unequal, or comparing them is a mistake."""
        if self._custom.compares_kinds:
            return False
        kinds = f"is {_KINDS[_rank(found)]}, and {value!r} is {_KINDS[_rank(value)]}"
        raise FilterError(f"field {name!r} cannot be compared with {value!r:.60}: {found!r:.60} {kinds}")


def _equality(part: Expression) -> tuple[str, int] | None:
    if isinstance(part, Compare) and part.order is Order.EQUAL:
        return (part.field, _rank(part.value))
    return None


def _unknown(name: str) -> Test[object]:
    def test(_: object) -> bool:
        raise FilterError(f"there is no field {name!r} to filter by")

    return test


def _wanted(name: str, found: object, kind: type[K], what: str) -> K:
    if isinstance(found, tuple):
        found = list(found)
    if not isinstance(found, kind):
        raise FilterError(f"field {name!r} is not {what} but {_KINDS[_rank(found)]}: {found!r:.60}")
    return found


def _rank(value: object) -> int:
    """The rank of a JSON value's kind among all kinds."""
    match value:
        case str():
            return 3
        case bool():
            return 1
        case int() | float():
            return 2
        case None:
            return 0
        case list() | tuple():
            return 4
        case _:
            return 5
