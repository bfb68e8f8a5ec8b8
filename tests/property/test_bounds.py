"""Bounds of a number: whatever an expression finds lies within (luxid.md 6.3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.query.predicate import Field, compile_expression
from common.query.qlang import NOTHING, Expression, NumericRange, bounds_of

Thing = tuple[int, int]
NUMBERS = st.integers(-3, 6)
CONDITIONS = st.tuples(
    st.sampled_from(["==", "!=", "<", ">", "<=", ">="]), st.sampled_from(["id", "size"]), NUMBERS
).map(list)
EXPRESSIONS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: ["&", *parts]),
        st.lists(inner, max_size=3).map(lambda parts: ["|", *parts]),
        inner.map(lambda part: ["!", part]),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, NUMBERS, NUMBERS)
def test_nothing_that_is_found_lies_outside(wire: Any, number: int, size: int) -> None:
    expression = Expression.from_wire(wire)
    fields = {
        "id": Field[tuple[int, int]](lambda thing: thing[0]),
        "size": Field[tuple[int, int]](lambda thing: thing[1]),
    }
    is_true = compile_expression(expression, fields.get)((number, size))

    bounds = bounds_of(expression, "id")

    assert not is_true or bounds.low <= number <= bounds.high


@pytest.mark.parametrize(
    ("wire", "bounds"),
    [
        (["&", [">", "id", 3], ["<=", "id", 9], ["==", "status", "queued"]], NumericRange(4, 9)),
        (["|", ["==", "id", 3], ["<", "id", 2]], NumericRange(high=3)),
        (["|", ["==", "id", 3], ["==", "status", "queued"]], NumericRange()),
        (["&", [">", "id", 3], ["<", "id", 3]], NumericRange(4, 2)),
        (["|"], NOTHING),
        (["!", ["==", "id", 3]], NumericRange()),
    ],
)
def test_conditions_on_the_number_narrow_the_range(wire: Any, bounds: NumericRange) -> None:
    assert bounds_of(Expression.from_wire(wire), "id") == bounds
