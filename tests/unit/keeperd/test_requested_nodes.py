"""Which candidate an operator means. Source: DESIGN section 14."""

import pytest

from common.errors import Conflict
from daemons.keeperd.core.mastership import living_node

LIVING = ("a.one.test", "b.one.test", "a.two.test", "node10", "node2")


@pytest.mark.parametrize(
    ("word", "name"),
    [("", ""), ("node2", "node2"), ("b", "b.one.test"), ("a.one", "a.one.test"), ("a.two.test", "a.two.test")],
)
def test_names_and_their_short_forms(word: str, name: str) -> None:
    assert living_node(word, LIVING) == name


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("node", "'node' is no candidate whose keeperd runs; those are: "),
        ("a", "'a' is the short name of several candidates; those are: 'a.one.test', 'a.two.test', "),
    ],
)
def test_an_unknown_or_ambiguous_name_is_refused_with_those_that_there_are(word: str, text: str) -> None:
    with pytest.raises(Conflict, match=r"'node2', 'node10'$") as refused:
        living_node(word, LIVING)
    assert refused.value.message.startswith(text)


def test_where_no_keeperd_runs_that_is_said() -> None:
    with pytest.raises(Conflict, match=r"those are: none$"):
        living_node("node1", ())
