"""Texts on a terminal of so many columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tables import Column, Layout, render
from common.words.cells import columns_of, cut, fitting


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("", 0), ("備份", 4), ("e\u0301", 1), ("a備", 3), ("ﾊ", 1), ("é", 1)]
)
def test_wide_characters_take_two_columns_and_marks_none(text: str, columns: int) -> None:
    assert columns_of(text) == columns


@given(st.text(alphabet="ab備\u0301é ", max_size=20), st.integers(min_value=1, max_value=20))
def test_a_cut_text_fits_and_begins_as_the_whole_one(text: str, columns: int) -> None:
    short = cut(text, columns)

    assert columns_of(short) <= columns
    assert short == text or (short[-1] == "…" and text.startswith(short[:-1]))
    if short != text:
        # no room is wasted but for half a wide character
        assert columns_of(text) > columns
        assert columns_of(short) >= columns - 1


def test_the_widest_column_is_cut_first() -> None:
    assert fitting([5, 40, 90], [None, 4, 7], 100) == [5, 40, 55]
    assert fitting([5, 40, 90], [None, 4, 7], 60) == [5, 28, 27]
    # not below what a person can read
    assert fitting([5, 40, 90], [None, 4, 7], 10) == [5, 12, 12]
    assert fitting([5, 40], [None, 4], 80) == [5, 40]


def test_a_table_is_cut_to_the_terminal_and_only_there() -> None:
    columns, rows = (Column("ID", is_number=True), Column("SUMMARY"), Column("NAME")), [["7", "備份" * 20, "x"]]

    [_, line] = render(columns, rows, Layout(width=30))
    [_, whole] = render(columns, rows, Layout())

    # half a wide character is left over
    assert line == " 7  備份備份備份備份備…   x"
    assert columns_of(line) <= 30
    assert "備份" * 20 in whole
