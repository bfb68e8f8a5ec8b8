"""Variables, values and marks of `--each`. Source: DESIGN section 16; everyday.md d."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.submitting.batch import spread
from cli.submitting.batchoptions import (
    MOST_VARIABLES,
    BatchOptions,
    BatchVariable,
    elements_of,
    fill,
    lines_of,
    marked,
    read_variable,
    variable,
)
from cli.submitting.options import SubmissionOptions
from common.errors import InvalidRequest
from common.queue.reasons import batch_of_trail

OP = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}
WISHES = SubmissionOptions(None, None, is_waiting=False, is_ganeti_form=False, prints_ids=False)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("host", "web1,web2", ("web1", "web2")),
        ("host", "web1", ("web1",)),
        ("n", "9..11", ("9", "10", "11")),
        ("n", "1..2,5", ("1", "2", "5")),
        ("n", "01..03", ("01", "02", "03")),
        ("n", "8..010", ("008", "009", "010")),
        ("n", "0..10", tuple(map(str, range(11)))),
        ("n", "1..100..25", ("1", "26", "51", "76")),
        ("n", "000..20..10", ("000", "010", "020")),
        ("path", "../a,a..b,v1..2", ("../a", "a..b", "v1..2")),
        ("word", "a b,$(x),'", ("a b", "$(x)", "'")),
        ("may_be_2", ",x", ("", "x")),
    ],
)
def test_values_stand_between_commas_or_are_a_range(name: str, text: str, values: tuple[str, ...]) -> None:
    assert read_variable(name, text) == BatchVariable(name, values)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("Host", "a", "'Host' cannot stand in braces"),
        ("2", "a", "'2' cannot stand in braces"),
        ("id", "a", "is none of id, refused"),
        ("host", "", "'host' has no values"),
        ("n", "5..4", "n=5..4 is empty; write the smaller number first: 4..5"),
        ("n", "1..100..", "n=1..100.. is not a range; write FIRST..LAST or FIRST..LAST..STEP, whole numbers from 0 to"),
        ("n", "1..x", "n=1..x is not a range"),
        ("n", "..5", "n=..5 is not a range"),
        ("n", "-1..5", "n=-1..5 is not a range"),
        ("n", "1..2..3..4", "n=1..2..3..4 is not a range"),
        ("n", "1..9999999999", "whole numbers from 0 to 999,999,999"),
        ("n", "1..5..0", "n=1..5..0 has a step of 0; it is at least 1"),
        ("n", "1..9999,1..9", "n=1..9999,1..9 has 10,008 values, of at most 10,000"),
        ("n", "1..10001", "n=1..10001 has 10,001 values, of at most 10,000"),
        ("host", "a\tb", "label 'host': its value has at most 256 printable characters"),
        ("host", "a" * 257, "label 'host': its value has at most 256 printable characters"),
    ],
)
def test_what_cannot_be_a_label_or_a_mark_is_refused(name: str, text: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_variable(name, text)
    assert error in refused.value.message


def test_a_file_has_a_value_a_line() -> None:
    assert lines_of("web1\r\n\n  web 2  \n# web3\nweb4") == ["web1", "web 2", "web4"]


def test_several_variables_give_each_combination_in_order() -> None:
    found = elements_of([BatchVariable("host", ("a", "b")), BatchVariable("size", ("1", "2"))])

    assert [tuple(each.values()) for each in found] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert list(found[0]) == ["host", "size"]


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    many = [BatchVariable(name, ("v",) * 1000) for name in "abcdefgh"]

    with pytest.raises(InvalidRequest, match=r"1,000 of a x .* jobs, of at most 10,000 in one submission"):
        elements_of(many)
    with pytest.raises(InvalidRequest, match="'a' is there twice"):
        elements_of([many[0], many[0]])
    with pytest.raises(InvalidRequest, match="at most 8 variables, got 9"):
        elements_of([*many, BatchVariable("i", ("v",))])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ssh {host}", "ssh a{size}b"),
        ("{host}{size}", "a{size}b9"),
        ("{{host}}", "{host}"),
        ("awk '{print $1} {{size}} {sizes} {} {'", "awk '{print $1} {size} {sizes} {} {'"),
        ("{{{size}}}", "{{size}}"),
    ],
)
def test_a_mark_is_replaced_once_and_all_else_stays(text: str, expected: str) -> None:
    assert fill(text, {"host": "a{size}b", "size": "9"}) == expected


def test_texts_with_marks_are_found() -> None:
    assert list(marked(["host"], ["{host}", "{{host}}", "{other}", "x{host}y"])) == ["{host}", "x{host}y"]


@given(st.text(), st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), st.text(), max_size=3))
def test_a_text_without_marks_stays_as_it_is(text: str, values: dict[str, str]) -> None:
    if not any(f"{{{name}}}" in text for name in values):
        assert fill(text, values) == text


@pytest.mark.parametrize("nodes", [(), ("web1",)])
def test_the_longest_names_of_as_many_variables_as_there_may_be_fit_into_the_entry_of_a_batch(
    nodes: tuple[str, ...],
) -> None:
    names = [f"{letter}{'x' * 30}" for letter in "abcdefgh"][: MOST_VARIABLES - len(nodes)]
    wish = BatchOptions(nodes, variables=tuple(variable(name, ["1", "2"]) for name in names[:1]), at_most=1, failures=0)
    wish = attrs.evolve(wish, variables=(*wish.variables, *(variable(name, ["1"]) for name in names[1:])))

    found = spread(OP, nodes, wish, WISHES, "run")

    batch = batch_of_trail(found.jobs[1][0]["reason"])
    assert batch is not None
    assert (batch.at_most, batch.failures, batch.each) == (1, 0, tuple(names))


def test_more_variables_than_that_are_refused() -> None:
    wish = BatchOptions(variables=tuple(variable(f"v{number}", ["1"]) for number in range(MOST_VARIABLES + 1)))

    with pytest.raises(InvalidRequest, match="at most 8 variables, got 9"):
        spread(OP, (), wish, WISHES, "run")
