"""What an expression implies about cheap fields rules out no thing that passes (`common.query.predicate`)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.query.predicate import NO_VALUE, Field, compile_expression
from common.query.qlang import All, Always, Compare, Expression, IsTrue, Not, Order, Some, implied

CHEAP, DEAR = ("a", "b"), ("x", "y")
_LEAVES = st.builds(
    Compare, st.sampled_from(CHEAP + DEAR), st.sampled_from(list(Order)), st.integers(0, 2)
) | st.builds(Always)
EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).flatmap(lambda parts: st.sampled_from([All(tuple(parts)), Some(tuple(parts))]))
        | st.builds(Not, inner)
    ),
    max_leaves=8,
)
VALUES = st.sampled_from([0, 1, 2, NO_VALUE])
THINGS = st.fixed_dictionaries(dict.fromkeys((*CHEAP, *DEAR), VALUES))


def _holds(expression: Expression, thing: dict[str, Any]) -> bool:
    def field(name: str) -> Field[dict[str, Any]]:
        return Field(lambda values: values[name])

    return compile_expression(expression, field)(thing)


@given(EXPRESSIONS, THINGS)
def test_what_passes_is_not_ruled_out_before_dear_values_are_known(
    expression: Expression, thing: dict[str, Any]
) -> None:
    bound = implied(expression, CHEAP.__contains__)

    assert not set(bound.field_names()) & set(DEAR)
    if _holds(expression, thing):
        assert not _holds(Not(bound), thing)


@given(EXPRESSIONS)
def test_without_dear_fields_the_expression_stays_as_it_is(expression: Expression) -> None:
    assert implied(expression, lambda _: True) == expression


def test_a_part_on_a_dear_field_is_left_out_also_under_a_negation() -> None:
    cheap, dear = Compare("a", Order.EQUAL, 1), IsTrue("x")

    assert implied(All((dear, cheap)), CHEAP.__contains__) == All((All(()), cheap))
    assert implied(Not(Some((dear, cheap))), CHEAP.__contains__) == Not(Some((Some(()), cheap)))
