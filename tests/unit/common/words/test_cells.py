"""Cells of lists of objects (cli.md 1.3)."""

import pytest

from common.words.cells import SizeUnit, cell_text, size_text


@pytest.mark.parametrize(
    ("state", "sign", "words"),
    [(1, "??", "(unknown)"), (2, "?", "(nodata)"), (3, "-", "(unavail)"), (4, "*", "(offline)")],
)
def test_a_cell_without_a_value_has_a_sign(state: int, sign: str, words: str) -> None:
    assert cell_text("number", state, None, SizeUnit.PEOPLE, in_words=False) == sign
    assert cell_text("number", state, None, SizeUnit.PEOPLE, in_words=True) == words


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("bool", True, "Y"),
        ("bool", False, "N"),
        ("number", 7, "7"),
        ("unit", 512, "512M"),
        ("unit", 1536, "1.5G"),
        ("unit", 3 * 1024**2, "3.0T"),
        ("other", ["a", "b"], "a,b"),
        ("other", {"a": 1}, '{"a":1}'),
        ("other", [], ""),
        ("text", "x", "x"),
    ],
)
def test_a_value_is_shown_by_its_kind(kind: str, value: object, text: str) -> None:
    assert cell_text(kind, 0, value, SizeUnit.PEOPLE, in_words=False) == text


def test_sizes_have_the_unit_that_was_asked_for() -> None:
    assert [size_text(2048, unit) for unit in SizeUnit] == ["2.0G", "2048", "2.0", "0.0"]
