"""The headers of a condition, read as RFC 9110 says, and by a naive twin (RFC 9110, 8.8.3, 13.1)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.conditions import Condition
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.conditions import read_condition


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], None),
        (['"a"'], Condition(tags=("a",))),
        (['"a", "b,c" ,"*"'], Condition(tags=("a", "b,c", "*"))),
        (['"a"', '"b"'], Condition(tags=("a", "b"))),
        ([', "a",,\t"b",'], Condition(tags=("a", "b"))),
        (['W/"a", "b"'], Condition(tags=("b",))),
        (['W/"a"'], Condition(tags=())),
        (['""'], Condition(tags=("",))),
        (['"\xe4"'], Condition(tags=("\xe4",))),
        ([" * "], Condition(is_there=True)),
    ],
)
def test_if_match_names_the_tags_that_are_wanted(values: Sequence[str], wanted: Condition | None) -> None:
    assert read_condition(values, []) == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["*"], Condition(is_there=False)),
        (['"a", W/"b"'], Condition(other_than=("a", "b"))),
    ],
)
def test_if_none_match_names_what_is_not_wanted(values: Sequence[str], wanted: Condition) -> None:
    assert read_condition([], values) == wanted


@pytest.mark.parametrize(
    "text", ["", " ", ",", "a", '"a', 'a"', '"a" "b"', '"a""b"', '*, "a"', "*,*", 'w/"a"', 'W/ "a"', '"a b"', '"a\x7f"']
)
def test_what_is_malformed_is_refused_with_the_rule(text: str) -> None:
    for if_match in (True, False):
        with pytest.raises(RequestRefused, match="must be \\* or tags in double quotes") as refused:
            read_condition([text] if if_match else [], [] if if_match else [text])
        assert refused.value.status == 400


def test_both_headers_count() -> None:
    both = read_condition(['"a", "b"'], ['"b"'])
    assert both is not None
    assert [tag for tag in ("a", "b", "c", None) if both.holds(tag)] == ["a"]
    never = read_condition(["*"], ["*"])
    assert never is not None
    assert not any(never.holds(tag) for tag in ("a", None))


def test_a_long_header_is_read_in_linear_time() -> None:
    """A quadratic reader takes minutes."""
    for text in (" " * 200_000 + "x", "," * 200_000 + "x", '"' * 200_001 + "x", 'W/"a", ' * 30_000 + "x"):
        with pytest.raises(RequestRefused):
            read_condition([text], [])


@given(st.text(st.sampled_from('W/"*a, \t\x7f'), max_size=12), st.sampled_from([None, "a", "", "*", "a,", "W/"]))
def test_it_holds_as_the_naive_twin_says(text: str, tag: str | None) -> None:
    wanted = _naive(text, tag)
    if wanted is None:
        with pytest.raises(RequestRefused):
            read_condition([text], [])
        with pytest.raises(RequestRefused):
            read_condition([], [text])
        return
    if_match, if_none_match = (read_condition([text], []), read_condition([], [text]))
    assert if_match is not None
    assert if_none_match is not None
    assert (if_match.holds(tag), if_none_match.holds(tag)) == wanted


def _naive(text: str, tag: str | None) -> tuple[bool, bool] | None:
    """Whether If-Match, and If-None-Match, of this text hold for a tag; None: it is malformed."""
    if text.strip(" \t") == "*":
        return tag is not None, tag is None
    strong, every, rest = set(), set(), text.strip(" \t")
    is_between = True
    while rest:
        if rest[0] in " \t":
            rest = rest[1:]
        elif rest[0] == ",":
            is_between, rest = True, rest[1:]
        else:
            is_weak = rest.startswith("W/")
            rest = rest[2:] if is_weak else rest
            if not is_between or not rest.startswith('"') or '"' not in rest[1:]:
                return None
            found, rest = rest[1:].split('"', 1)
            if any(letter in " \t\x7f" for letter in found):
                return None
            every.add(found)
            if not is_weak:
                strong.add(found)
            is_between = False
    if not every:
        return None
    return tag in strong, tag not in every
