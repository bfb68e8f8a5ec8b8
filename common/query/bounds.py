"""The range of a number outside of which an expression is never true, so that things beyond it need not be looked at.

Source: luxid.md 6.3.
"""

import math
from collections.abc import Iterable
from typing import Final, assert_never

import attrs

from common.query.qlang import All, Compare, Expression, Order, Some


@attrs.frozen
class Bounds:
    """From `low` to `high`, both included; empty if `low` is greater."""

    low: float = -math.inf
    high: float = math.inf


NOTHING: Final = Bounds(math.inf, -math.inf)


def bounds_of(expression: Expression, field: str) -> Bounds:
    """The values of a field, which has whole numbers, for which the expression can be true."""
    match expression:
        case Compare(field=name, order=order, value=int() as value) if name == field:
            return _compared(order, value)
        case All(parts=parts):
            return _within_all(bounds_of(part, field) for part in parts)
        case Some(parts=parts):
            return _within_any(bounds_of(part, field) for part in parts)
        case _:
            return Bounds()


def _compared(order: Order, value: int) -> Bounds:
    match order:
        case Order.EQUAL:
            return Bounds(value, value)
        case Order.LESS:
            return Bounds(high=value - 1)
        case Order.AT_MOST:
            return Bounds(high=value)
        case Order.GREATER:
            return Bounds(low=value + 1)
        case Order.AT_LEAST:
            return Bounds(low=value)
        case _:
            assert_never(order)


def _within_all(parts: Iterable[Bounds]) -> Bounds:
    found = Bounds()
    for part in parts:
        found = Bounds(max(found.low, part.low), min(found.high, part.high))
    return found


def _within_any(parts: Iterable[Bounds]) -> Bounds:
    found = NOTHING
    for part in parts:
        if part.low <= part.high:
            found = Bounds(min(found.low, part.low), max(found.high, part.high))
    return found
