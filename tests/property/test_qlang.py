"""Compiled expressions against a twin that walks the JSON and knows no short cuts."""

import operator
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.query.predicate import NO_VALUE, PREDICATE, QUERY, Custom, Field, FilterError, compile_expression
from common.query.qlang import Expression, named_values

FIELDS = ("a", "b", "unheard")
WORDS = st.sampled_from(["", "x", "xy", "y.x"])
VALUES = WORDS | st.integers(-1, 2)
CONTENTS = (
    VALUES
    | st.booleans()
    | st.none()
    | st.floats(-1, 2)
    | st.lists(VALUES, max_size=2)
    | st.just({"x": 1})
    | st.just(NO_VALUE)
)
THINGS = st.fixed_dictionaries({"a": CONTENTS, "b": CONTENTS})
LEAVES = st.one_of(
    st.tuples(st.sampled_from(["==", "=", "!=", "<", ">", "<=", ">=", "=[]"]), st.sampled_from(FIELDS), VALUES),
    st.tuples(st.just("=="), st.just("a"), VALUES),
    st.tuples(st.just("?"), st.sampled_from(FIELDS)),
    st.tuples(st.just("=~"), st.sampled_from(FIELDS), st.sampled_from(["x", "^x", "y$", ""])),
).map(list)
EXPRESSIONS = st.recursive(
    LEAVES | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: ["&", *parts]),
        st.lists(inner, max_size=6).map(lambda parts: ["|", *parts]),
        inner.map(lambda part: ["!", part]),
    ),
    max_leaves=8,
)
ORDERS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


class MistakeError(Exception):
    pass


def rank(value: Any) -> int:
    kinds = {type(None): 0, bool: 1, int: 2, float: 2, str: 3, list: 4, dict: 5}
    return kinds[type(value)]


def naive(value: Any, thing: Mapping[str, Any], custom: Custom) -> bool | None:
    """None: unknown, which lies between false and true."""
    if value is None:
        return True
    kind, *rest = value
    if kind in ("&", "|"):
        last = kind == "|"
        found: list[bool | None] = []
        for part in rest:
            found.append(naive(part, thing, custom))
            # what comes behind the part that decides is not looked at, not even for mistakes
            if found[-1] is last:
                return last
        return None if None in found else not last
    if kind in ("!", "!="):
        inner = naive(rest[0] if kind == "!" else ["==", *rest], thing, custom)
        return None if inner is None else not inner
    if rest[0] not in thing:
        raise MistakeError
    found_value = thing[rest[0]]
    if found_value is NO_VALUE:
        return False if custom is PREDICATE else None
    return naive_leaf(kind, found_value, rest[1:], custom)


def naive_leaf(kind: str, found: Any, rest: list[Any], custom: Custom) -> bool:
    wanted = {"?": bool, "=~": str, "=[]": list}.get(kind)
    if wanted is not None and type(found) is not wanted:
        raise MistakeError
    if kind == "?":
        return bool(found)
    if kind == "=~":
        plain = rest[0].strip("^$")
        return (
            found.startswith(plain)
            if rest[0][:1] == "^"
            else found.endswith(plain)
            if rest[0][-1:] == "$"
            else plain in found
        )
    others = [item for item in (found if kind == "=[]" else [found]) if rank(item) != rank(rest[0])]
    if others and custom is QUERY:
        raise MistakeError
    if kind == "=[]":
        return any(rank(item) == rank(rest[0]) and item == rest[0] for item in found)
    if kind in ("==", "="):
        return not others and found == rest[0]
    return bool(ORDERS[kind](rank(found), rank(rest[0])) if others else ORDERS[kind](found, rest[0]))


def field_of(name: str) -> Field[Mapping[str, Any]] | None:
    return Field(lambda thing: thing[name]) if name != "unheard" else None


@given(EXPRESSIONS, THINGS)
def test_a_rule_judges_as_its_twin_and_never_raises(value: Any, thing: Mapping[str, Any]) -> None:
    try:
        expected = naive(value, thing, PREDICATE) is True
    except MistakeError:
        expected = False

    assert compile_expression(Expression.from_wire(value), field_of, PREDICATE)(thing) is expected


@given(EXPRESSIONS, THINGS)
def test_a_query_judges_as_its_twin_or_raises_where_it_does(value: Any, thing: Mapping[str, Any]) -> None:
    expression = Expression.from_wire(value)
    try:
        if "unheard" in expression.field_names():
            raise MistakeError
        expected: bool | None = naive(value, thing, QUERY) is True
    except MistakeError:
        expected = None

    try:
        found: bool | None = compile_expression(expression, field_of, QUERY)(thing)
    except FilterError:
        found = None
    assert found is expected


@given(EXPRESSIONS)
def test_what_is_written_reads_as_the_same(value: Any) -> None:
    expression = Expression.from_wire(value)

    assert Expression.from_wire(expression.to_wire()) == expression


@given(EXPRESSIONS, THINGS)
def test_whoever_passes_a_list_of_names_has_one_of_them(value: Any, thing: Mapping[str, Any]) -> None:
    expression = Expression.from_wire(value)
    names = named_values(expression, "a")

    if names is not None and thing["a"] is not NO_VALUE:
        assert compile_expression(expression, field_of, PREDICATE)(thing) is any(
            rank(name) == rank(thing["a"]) and name == thing["a"] for name in names
        )
