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
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.query.regex import Regex, parse_regex
from common.shapes import OwnForm

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
