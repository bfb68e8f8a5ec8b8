"""The query language: conditions on the fields of jobs, nodes, locks, opcodes.

In JSON an expression is null (always true) or a list `[operator, operand, ...]`:

    ["&", expr, ...]  ["|", expr, ...]  ["!", expr]      all, any, not
    ["?", field]                                         the field is true
    ["==", field, value]  also "=", "!=", "<", ">", "<=", ">="
    ["=~", field, regex]                                 found anywhere in the text
    ["=[]", field, value]                                the list has the value

Values are strings and whole numbers. Reading finds every fault that does not depend on the
fields; `common.query.predicate` evaluates an expression for a thing.

Source: luxid.md 6.3; filters design, "Predicates".
"""

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, assert_never

import attrs

from common.errors import InvalidRequest
from common.shapes import OwnForm

# Regular expressions from clients: searched in linear time, whatever the pattern.
#
# `(a+)+$` and one line of text can occupy a backtracking engine for years, and with it the only event
# loop of a daemon. RE2's time grows only with the text. The price: no look-around and no back
# references, as no linear engine has them; such patterns are refused, with advice.
#
# Source: luxid.md 6.3 (`=~`).


# characters of a pattern, and bytes of its compiled form, caches included
LONGEST: Final = 4096
_MEMORY: Final = 2**20
_LOOK_AROUND: Final = ("(?=", "(?!", "(?<", "\\1", "\\2", "\\3", "\\4", "\\5", "\\6", "\\7", "\\8", "\\9", "\\k")


@attrs.frozen(eq=False, repr=False)
class Regex:
    """A pattern that is searched anywhere in a text. Make one with `parse_regex`."""

    pattern: str
    # function: bytes of UTF-8 -> match or None
    _search: Callable[[bytes], object]

    def is_in(self, text: str) -> bool:
        """Cost: linear in the text."""
        return self._search(text.encode("utf-8", "surrogatepass")) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r})"


@lru_cache(maxsize=128)
def parse_regex(pattern: str) -> Regex:
    """Read a pattern.

    Raises: InvalidRequest: the pattern is malformed, too long, or needs more than linear time; the
        message has the character (from 1) and the part where it fails.
    """
    # imported late: it is large, and most filters have no pattern
    import re2

    if len(pattern) > LONGEST:
        raise InvalidRequest(f"the regular expression has {len(pattern)} characters; at most {LONGEST} are allowed")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Regex(pattern, re2.compile(pattern.encode(), options).search)
    except UnicodeEncodeError:
        raise InvalidRequest(f"the regular expression {pattern!r:.80} is not Unicode text") from None
    except re2.error as error:
        raise InvalidRequest(_explain(pattern, error)) from None


def _explain(pattern: str, error: Exception) -> str:
    text = error.args[0].decode("utf-8", "replace") if error.args else "it cannot be compiled"
    reason, _, part = text.partition(": ")
    place = pattern.find(part) if part else -1
    where = f" at character {place + 1}, {part!r:.40}" if place >= 0 else ""
    if part.startswith(_LOOK_AROUND):
        reason = "look-around and back references are not supported, combine conditions by '&' and '!'"
    return f"bad regular expression {pattern!r:.80}: {reason}{where}"


Value = str | int

DEEPEST: Final = 100


class Order(enum.Enum):
    """The order of a field's value and the given one; `!=` is the negation of EQUAL."""

    EQUAL = "=="
    LESS = "<"
    GREATER = ">"
    AT_MOST = "<="
    AT_LEAST = ">="


@attrs.frozen
class Expression(OwnForm):
    """A condition; one of the classes below."""

    @classmethod
    def from_wire(cls, value: object) -> "Expression":
        """Read an expression.

        Raises: InvalidRequest: it is malformed; the message names the place: `filter $[2][1]: unknown
            operator '~~', ...`, where `$` is the whole expression.
        """
        return _read(value, ())

    def to_wire(self) -> object:
        """The normal form: `=` becomes `==`, and `!=` its negation."""
        return self._written()

    def field_names(self) -> Iterator[str]:
        """All field names in the expression, in order, with repetitions."""
        yield from ()

    def _written(self) -> object:
        raise NotImplementedError


@attrs.frozen
class Always(Expression):
    """null: no condition."""

    def _written(self) -> object:
        return None


@attrs.frozen
class _Combined(Expression):
    parts: tuple[Expression, ...]

    def field_names(self) -> Iterator[str]:
        for part in self.parts:
            yield from part.field_names()


@attrs.frozen
class All(_Combined):
    """True without parts; evaluation stops at the first false one."""

    def _written(self) -> object:
        return ["&", *(part.to_wire() for part in self.parts)]


@attrs.frozen
class Some(_Combined):
    """False without parts; evaluation stops at the first true one."""

    def _written(self) -> object:
        return ["|", *(part.to_wire() for part in self.parts)]


@attrs.frozen
class Not(Expression):
    part: Expression

    def _written(self) -> object:
        return ["!", self.part.to_wire()]

    def field_names(self) -> Iterator[str]:
        yield from self.part.field_names()


@attrs.frozen
class _OnField(Expression):
    field: str

    def field_names(self) -> Iterator[str]:
        yield self.field


@attrs.frozen
class IsTrue(_OnField):
    def _written(self) -> object:
        return ["?", self.field]


@attrs.frozen
class Compare(_OnField):
    order: Order
    value: Value

    def _written(self) -> object:
        return [self.order.value, self.field, self.value]


@attrs.frozen
class Matches(_OnField):
    regex: Regex

    def _written(self) -> object:
        return ["=~", self.field, self.regex.pattern]


@attrs.frozen
class Contains(_OnField):
    value: Value

    def _written(self) -> object:
        return ["=[]", self.field, self.value]


def named_values(expression: Expression, field: str) -> tuple[Value, ...] | None:
    """The values that an expression lists for a field, if it has only `|` and `==` on this field.

    Returns: each value once, in order; None: the expression has another form, and all things must be tested.
    """
    match expression:
        case Compare(field=name, order=Order.EQUAL, value=value) if name == field:
            return (value,)
        case Some(parts=parts):
            found: dict[Value, None] = {}
            for part in parts:
                values = named_values(part, field)
                if values is None:
                    return None
                found.update(dict.fromkeys(values))
            return tuple(found)
        case _:
            return None


_Place = tuple[int, ...]


def _read(value: object, place: _Place) -> Expression:
    if value is None:
        return Always()
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], str):
        raise _refusal(place, f"expected null or [operator, operand, ...], got {value!r:.60}")
    if len(place) > DEEPEST:
        raise _refusal(place[:3], f"expressions are nested deeper than {DEEPEST}")
    operator, *operands = value
    reader = _READERS.get(operator)
    if reader is None:
        raise _refusal(place, f"unknown operator {operator!r:.40}; operators are {' '.join(_READERS)}")
    return reader(operator, operands, place)


def _read_parts(operands: Sequence[object], place: _Place) -> tuple[Expression, ...]:
    return tuple(_read(part, (*place, index)) for index, part in enumerate(operands, 1))


def _read_not(operator: str, operands: Sequence[object], place: _Place) -> Expression:
    _count(operator, operands, "expression", place)
    return Not(_read(operands[0], (*place, 1)))


def _read_truth(operator: str, operands: Sequence[object], place: _Place) -> Expression:
    _count(operator, operands, "field", place)
    return IsTrue(_field(operands, place))


def _read_compare(operator: str, operands: Sequence[object], place: _Place) -> Expression:
    _count(operator, operands, "field, value", place)
    order = Order.EQUAL if operator in ("=", "!=") else Order(operator)
    compare = Compare(_field(operands, place), order, _value(operands, place))
    return Not(compare) if operator == "!=" else compare


def _read_match(operator: str, operands: Sequence[object], place: _Place) -> Expression:
    _count(operator, operands, "field, regular expression", place)
    if not isinstance(operands[1], str):
        raise _refusal((*place, 2), f"expected a regular expression, got {operands[1]!r:.60}")
    try:
        return Matches(_field(operands, place), parse_regex(operands[1]))
    except InvalidRequest as error:
        raise _refusal((*place, 2), error.message) from None


def _read_contains(operator: str, operands: Sequence[object], place: _Place) -> Expression:
    _count(operator, operands, "list field, value", place)
    return Contains(_field(operands, place), _value(operands, place))


_READERS: Final[dict[str, Callable[[str, Sequence[object], _Place], Expression]]] = {
    "&": lambda _, operands, place: All(_read_parts(operands, place)),
    "|": lambda _, operands, place: Some(_read_parts(operands, place)),
    "!": _read_not,
    "?": _read_truth,
    **dict.fromkeys(("==", "=", "!=", "<", ">", "<=", ">="), _read_compare),
    "=~": _read_match,
    "=[]": _read_contains,
}


def _count(operator: str, operands: Sequence[object], wanted: str, place: _Place) -> None:
    if len(operands) != wanted.count(",") + 1:
        raise _refusal(place, f"'{operator}' takes [{wanted}], got {len(operands)} operands")


def _field(operands: Sequence[object], place: _Place) -> str:
    if not isinstance(operands[0], str):
        raise _refusal((*place, 1), f"expected the name of a field, got {operands[0]!r:.60}")
    return operands[0]


def _value(operands: Sequence[object], place: _Place) -> Value:
    value = operands[1]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _refusal((*place, 2), f"expected a string or a whole number, got {value!r:.60}")
    return value


def _refusal(place: _Place, reason: str) -> InvalidRequest:
    return InvalidRequest(f"filter ${''.join(f'[{index}]' for index in place)}: {reason}")


# The range of a number outside of which an expression is never true, so that things beyond it need not be looked at.
#
# Source: luxid.md 6.3.


@attrs.frozen
class NumericRange:
    """From `low` to `high`, both included; empty if `low` is greater."""

    low: float = -math.inf
    high: float = math.inf


NOTHING: Final = NumericRange(math.inf, -math.inf)


def bounds_of(expression: Expression, field: str) -> NumericRange:
    """The values of a field, which has whole numbers, for which the expression can be true."""
    match expression:
        case Compare(field=name, order=order, value=int() as value) if name == field:
            return _compared(order, value)
        case All(parts=parts):
            return _within_all(bounds_of(part, field) for part in parts)
        case Some(parts=parts):
            return _within_any(bounds_of(part, field) for part in parts)
        case _:
            return NumericRange()


def _compared(order: Order, value: int) -> NumericRange:
    match order:
        case Order.EQUAL:
            return NumericRange(value, value)
        case Order.LESS:
            return NumericRange(high=value - 1)
        case Order.AT_MOST:
            return NumericRange(high=value)
        case Order.GREATER:
            return NumericRange(low=value + 1)
        case Order.AT_LEAST:
            return NumericRange(low=value)
        case _:
            assert_never(order)


def _within_all(parts: Iterable[NumericRange]) -> NumericRange:
    found = NumericRange()
    for part in parts:
        found = NumericRange(max(found.low, part.low), min(found.high, part.high))
    return found


def _within_any(parts: Iterable[NumericRange]) -> NumericRange:
    found = NOTHING
    for part in parts:
        if part.low <= part.high:
            found = NumericRange(min(found.low, part.low), max(found.high, part.high))
    return found


# What an expression implies about a part of the fields.
#
# Theory. Some values are dear to learn. Before they are, the things that cannot pass are left out: every condition on a
# dear field is replaced by true, and under a negation by false. In the order false < unknown < true no replacement
# makes the verdict smaller, because `&` and `|` keep that order and `!` turns it round. So a thing for which the
# implied expression is false cannot pass, whatever the dear values are.


_TRUE: Final = All(())
_FALSE: Final = Some(())


def implied(expression: Expression, is_cheap: Callable[[str], bool]) -> Expression:
    """The part of an expression that is about cheap fields; it holds wherever the expression holds."""
    return _bound(expression, is_cheap, _TRUE, _FALSE)


def _bound(
    expression: Expression, is_cheap: Callable[[str], bool], dear: Expression, negated: Expression
) -> Expression:
    """Args: dear: stands for a condition on a dear field; negated: the same, under one more negation."""
    match expression:
        case All(parts=parts):
            return All(tuple(_bound(part, is_cheap, dear, negated) for part in parts))
        case Some(parts=parts):
            return Some(tuple(_bound(part, is_cheap, dear, negated) for part in parts))
        case Not(part=part):
            return Not(_bound(part, is_cheap, negated, dear))
        case Compare(field=name) | Contains(field=name) | IsTrue(field=name) | Matches(field=name):
            return expression if is_cheap(name) else dear
        case Always():
            return expression
        case _:
            # `Expression` may have further classes
            raise TypeError(f"no expression: {expression!r}")
