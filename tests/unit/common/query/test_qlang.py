"""The query language (luxid.md 6.3, 7.2; DESIGN section 11)."""

from collections.abc import Mapping
from typing import Any

import pytest

from common.errors import InvalidRequest
from common.query.predicate import NO_VALUE, PREDICATE, Custom, Field, FilterError, compile_expression
from common.query.predicate import QUERY as QUERY_CUSTOM
from common.query.qlang import DEEPEST, LONGEST, Expression, named_values, parse_regex
from common.wire import structure, unstructure

Thing = Mapping[str, Any]
NAMES = ("id", "name", "text", "flag", "items", "nothing", "null", "absent")
THING: Thing = {
    "id": 7,
    "name": "node1.example.com",
    "text": "error",
    "flag": True,
    "items": ["a", "b"],
    "null": None,
    "absent": NO_VALUE,
}


def field_of(name: str) -> Field[Thing] | None:
    if name not in THING:
        return None
    aliases = (lambda value: ["node1"]) if name == "name" else None
    return Field(lambda thing: thing[name], aliases)


def holds(value: Any, custom: Custom = QUERY_CUSTOM, thing: Thing = THING) -> bool:
    return compile_expression(Expression.from_wire(value), field_of, custom)(thing)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        (["&"], True),
        (["|"], False),
        (["&", ["==", "id", 7], ["=", "text", "error"]], True),
        (["&", ["==", "id", 7], ["=", "text", "success"]], False),
        (["|", ["==", "id", 8], ["==", "text", "error"]], True),
        (["!", ["==", "id", 7]], False),
        (["?", "flag"], True),
        (["!=", "id", 7], False),
        (["<", "id", 7], False),
        (["<=", "id", 7], True),
        ([">", "id", 6], True),
        ([">=", "id", 8], False),
        (["<", "text", "f"], True),
        (["=~", "text", "rr"], True),
        (["=~", "text", "^r"], False),
        (["=[]", "items", "b"], True),
        (["=[]", "items", "c"], False),
        (["==", "id", 7.0], True),
        (["==", "name", "node1"], True),
        (["!=", "name", "node1"], False),
        (["==", "name", "node"], False),
    ],
)
def test_an_expression_holds_as_the_table_of_operators_says(value: Any, expected: bool) -> None:
    assert holds(value) is expected
    assert holds(value, PREDICATE) is expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "filter $: expected null or [operator, operand, ...], got 'x'"),
        ([], "filter $: expected null or [operator, operand, ...], got []"),
        (
            ["&", None, ["~~", "id", 1]],
            "filter $[2]: unknown operator '~~'; operators are & | ! ? == = != < > <= >= =~ =[]",
        ),
        (["!", ["|", ["=", "id"]]], "filter $[1][1]: '=' takes [field, value], got 1 operands"),
        (["!"], "filter $: '!' takes [expression], got 0 operands"),
        (["?", 5], "filter $[1]: expected the name of a field, got 5"),
        (["=", "id", 1.5], "filter $[2]: expected a string or a whole number, got 1.5"),
        (["=", "id", True], "filter $[2]: expected a string or a whole number, got True"),
        (["=", "id", None], "filter $[2]: expected a string or a whole number, got None"),
        (["=~", "id", 5], "filter $[2]: expected a regular expression, got 5"),
        (["|", ["=~", "id", "a("]], "filter $[1][2]: bad regular expression 'a(': missing ) at character 1, 'a('"),
        (
            ["=~", "id", "ab[z-a]"],
            "filter $[2]: bad regular expression 'ab[z-a]': invalid character class range at character 4, 'z-a'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Expression.from_wire(value)

    assert caught.value.message == message


def test_expressions_may_be_deep_but_not_endlessly() -> None:
    value: Any = ["?", "flag"]
    for _ in range(DEEPEST):
        value = ["!", value]
    assert holds(value) is True

    with pytest.raises(InvalidRequest, match=r"filter \$\[1\]\[1\]\[1\]: expressions are nested deeper than 100"):
        Expression.from_wire(["!", value])


def test_a_pattern_that_would_backtrack_for_ever_is_searched_in_linear_time() -> None:
    """A backtracking engine would not come back from any of these."""
    text = "a" * 100_000 + "!"

    assert not parse_regex("(a+)+$").is_in(text)
    assert not parse_regex("^(a|a)*$").is_in(text)
    assert not parse_regex("(.*)*(.*)*x$").is_in(text)


@pytest.mark.parametrize("pattern", ["a(?=b)", "a(?!b)", "(?<=a)b", r"(a)\1"])
def test_what_no_linear_engine_can_do_is_refused_with_advice(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="look-around and back references are not supported"):
        parse_regex(pattern)


def test_a_pattern_of_any_size_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=f"has {LONGEST + 1} characters; at most {LONGEST}"):
        parse_regex("a" * (LONGEST + 1))
    with pytest.raises(InvalidRequest, match="bad regular expression"):
        parse_regex("((a{100}){100}){100}")


def test_patterns_and_text_may_be_any_unicode() -> None:
    assert parse_regex("gr.n$").is_in("immer grün")
    assert not parse_regex("x").is_in("\ud800")
    with pytest.raises(InvalidRequest, match="is not Unicode text"):
        parse_regex("\ud800")


def test_the_normal_form_has_the_new_spellings() -> None:
    """DIFF-39."""
    value = ["&", ["=", "a", 1], ["!=", "b", "x"], ["=~", "c", "^x"], ["=[]", "d", "y"], ["?", "e"], ["|", None]]

    written = unstructure(Expression.from_wire(value))

    assert written == [
        "&",
        ["==", "a", 1],
        ["!", ["==", "b", "x"]],
        ["=~", "c", "^x"],
        ["=[]", "d", "y"],
        ["?", "e"],
        ["|", None],
    ]
    assert structure(written, Expression) == Expression.from_wire(value)


def test_the_fields_of_an_expression_are_known() -> None:
    value = ["&", ["=", "a", 1], ["!", ["|", ["?", "b"], ["=~", "c", "x"], ["=[]", "a", "y"]]]]

    assert list(Expression.from_wire(value).field_names()) == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["=", "id", 7], (7,)),
        (["|", ["==", "id", 7], ["|", ["=", "id", "8"], ["=", "id", 7]]], (7, "8")),
        (["|"], ()),
        (None, None),
        (["|", ["=", "id", 7], ["=", "name", "x"]], None),
        (["&", ["=", "id", 7]], None),
        (["!=", "id", 7], None),
        (["<", "id", 7], None),
    ],
)
def test_a_list_of_names_is_recognised(value: Any, names: Any) -> None:
    """luxid.md 7.2."""
    assert named_values(Expression.from_wire(value), "id") == names


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["==", "id", "7"], "field 'id' cannot be compared with '7': 7 is a number, and '7' is a string"),
        (["<", "text", 1], "field 'text' cannot be compared with 1: 'error' is a string, and 1 is a number"),
        (["==", "flag", 1], "field 'flag' cannot be compared with 1: True is a bool, and 1 is a number"),
        (["=~", "items", "a"], "field 'items' is not text but a list: ['a', 'b']"),
        (["?", "text"], "field 'text' is not true or false but a string: 'error'"),
        (["=[]", "text", "e"], "field 'text' is not a list but a string: 'error'"),
        (["=[]", "items", 1], "field 'items' cannot be compared with 1: 'a' is a string, and 1 is a number"),
    ],
)
def test_a_query_says_what_does_not_fit_and_a_rule_does_not_match(value: Any, message: str) -> None:
    """luxid.md 6.3: an error for queries; false for predicates, also under a negation."""
    with pytest.raises(FilterError) as caught:
        holds(value)
    assert caught.value.message == message
    assert caught.value.wire_name == "ParameterError"

    assert holds(value, PREDICATE) is False


@pytest.mark.parametrize("value", [["=~", "items", "a"], ["?", "text"], ["=[]", "text", "e"], ["==", "unheard", 1]])
def test_a_mistake_makes_a_whole_rule_false_also_when_negated(value: Any) -> None:
    assert holds(["!", value], PREDICATE) is False
    assert holds(["|", value, ["?", "flag"]], PREDICATE) is False


def test_a_mistake_that_is_not_reached_does_not_count() -> None:
    mistake = ["=~", "items", "a"]

    for custom in (QUERY_CUSTOM, PREDICATE):
        assert holds(["|", ["?", "flag"], mistake], custom) is True
        assert holds(["&", ["==", "id", 8], mistake], custom) is False


def test_a_rule_orders_values_of_different_kinds() -> None:
    """null < bool < number < string < list < object"""
    kinds = [None, True, 5, "x", ["x"], {"x": 1}]

    below = [holds(["<", "id", "x"], PREDICATE, {"id": value}) for value in kinds]
    above = [holds([">", "id", 5], PREDICATE, {"id": value}) for value in kinds]

    assert below == [True, True, True, False, False, False]
    assert above == [False, False, False, True, True, True]
    assert [holds(["==", "id", 1], PREDICATE, {"id": value}) for value in kinds] == [False] * 6


ON_NOTHING = (
    ["==", "absent", 1],
    ["<", "absent", "x"],
    ["=~", "absent", "x"],
    ["?", "absent"],
    ["=[]", "absent", 1],
)


@pytest.mark.parametrize("value", ON_NOTHING)
def test_a_query_matches_nothing_by_a_field_without_a_value_negated_or_not(value: Any) -> None:
    """Nobody knows whether it would match; `!` cannot turn that into a yes."""
    for condition in (value, ["!", value], ["!", ["!", value]], ["!", ["&", value, ["?", "flag"]]]):
        assert holds(condition) is False


@pytest.mark.parametrize("value", ON_NOTHING)
def test_a_query_still_holds_by_what_is_known(value: Any) -> None:
    yes, no = ["?", "flag"], ["==", "id", 8]

    for first, second in ((value, yes), (yes, value)):
        assert holds(["|", first, second]) is True
        assert holds(["&", first, second]) is False
    for first, second in ((value, no), (no, value)):
        assert holds(["!", ["&", first, second]]) is True
        assert holds(["|", first, second]) is False


@pytest.mark.parametrize("value", ON_NOTHING)
def test_a_rule_takes_a_condition_on_a_missing_field_for_false_and_its_negation_for_true(value: Any) -> None:
    """DESIGN section 11, "predicates on a field that an opcode lacks"."""
    assert holds(value, PREDICATE) is False
    assert holds(["!", value], PREDICATE) is True
    assert holds(["|", value, ["?", "flag"]], PREDICATE) is True
    assert holds(["|", ["?", "flag"], value], PREDICATE) is True


def test_a_query_tells_which_fields_it_could_not_judge_by() -> None:
    lacking: list[str] = []
    judge = compile_expression(
        Expression.from_wire(["|", ["==", "id", 8], ["!", ["&", ["<", "absent", 1], [">", "absent", 0]]]]),
        field_of,
        missing=lacking.append,
    )

    assert judge(THING) is False
    assert lacking == ["absent"]
    assert judge({**THING, "id": 8}) is True
    assert judge({**THING, "absent": 5}) is True
    assert lacking == ["absent"]


def test_an_unknown_field_is_refused_before_anything_is_looked_at() -> None:
    with pytest.raises(FilterError, match="there is no field 'unheard' to filter by"):
        compile_expression(Expression.from_wire(["|", ["?", "flag"], ["==", "unheard", 1]]), field_of)


def test_thousands_of_names_are_one_look_at_the_field() -> None:
    reads = 0

    def read(thing: int) -> int:
        nonlocal reads
        reads += 1
        return thing

    value = ["|", *(["==", "id", number] for number in range(5000))]
    test = compile_expression(Expression.from_wire(value), lambda name: Field(read))

    assert [test(4999), test(5000)] == [True, False]
    assert reads == 2
