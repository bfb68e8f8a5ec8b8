"""The rows of an output, as elements; that nothing else comes through is in tests/property/rapid/test_terminal.py."""

import re
from collections.abc import Mapping
from itertools import product

import pytest

from daemons.rapid.page.templates import STATIC
from daemons.rapid.page.terminal import (
    START,
    DisplayBounds,
    FirstLines,
    LineGroup,
    LinePosition,
    OutputLine,
    Style,
    StyledText,
    Terminal,
)
from daemons.rapid.page.views.outputview import appended_rows, rows_html, tail_html

# contrast that WCAG 2.2 wants of a text, level AA
ENOUGH = 4.5


def rows(printed: bytes, find: str = "") -> str:
    terminal = Terminal()
    return str(rows_html(terminal.feed(printed), open_group=terminal.group, find=find))


def test_a_row_has_its_number_which_leads_to_it() -> None:
    number = '<a href="#L1" data-n="1" tabindex="-1" aria-hidden="true"></a>'
    assert rows(b"a<b>\n") == f'<div class="l" id="L1">{number}<span>a&lt;b&gt;\n</span></div>'
    found = rows_html([OutputLine(1, (StyledText("a"),))], href='/ui/jobs/4?find="&line={}'.format)
    assert '<a href="/ui/jobs/4?find=&#34;&amp;line=1" data-n="1" aria-label="line 1"></a>' in found


@pytest.mark.parametrize(
    ("parameters", "classes"),
    [
        ("1;4;9;31", "t-f1 t-bold t-line-both"),
        ("2;3;4;97;42", "t-f15 t-b2 t-faint t-italic t-line-under"),
        ("7", "t-inverse"),
        # a text in the usual colour on red, which can be read in both themes
        ("7;31", "t-b1"),
        ("7;31;44", "t-f4 t-b1"),
    ],
)
def test_looks_are_classes(parameters: str, classes: str) -> None:
    assert f'<span><span class="{classes}">x</span>\n</span>' in rows(f"\x1b[{parameters}mx\n".encode())


def test_what_is_found_is_marked_also_where_its_colour_changes() -> None:
    drawn = rows(b"an ERR\x1b[31mor<\x1b[m, error<\n", find="error<")

    assert "an <mark>ERR</mark>" in drawn
    assert '<span class="t-f1"><mark>or&lt;</mark></span>, <mark>error&lt;</mark>' in drawn


def test_only_groups_that_go_on_and_those_with_something_found_are_open() -> None:
    printed = b"::group::one\na\n::group::two\nb\n::endgroup::\n::group::three\nc\n"

    assert re.findall(r'id="(G\d)"( open)?', rows(printed)) == [("G1", ""), ("G3", ""), ("G6", " open")]
    assert re.findall(r'id="(G\d)"( open)?', rows(printed, find="b")) == [("G1", ""), ("G3", " open"), ("G6", " open")]


def test_a_part_that_begins_within_a_group_says_so() -> None:
    drawn = str(rows_html([OutputLine(7, (StyledText("x"),), LineGroup(3, "<build>"))]))

    assert '<details class="fold" id="G3" open=""><summary class="rest">&lt;build&gt; …</summary>' in drawn


def test_the_tail_is_an_element_also_without_a_line() -> None:
    assert str(tail_html(None)) == '<div id="tail"></div>'
    assert 'id="L4"' in str(tail_html(OutputLine(4, (StyledText("x"),))))


def test_a_line_that_is_cut_and_one_that_is_a_note_are_told_apart() -> None:
    drawn = str(
        rows_html(
            [OutputLine(1, (StyledText("x"),), is_cut=True), OutputLine(2, (StyledText("<lost>"),), is_note=True)]
        )
    )

    assert 'class="l cut" id="L1"' in drawn
    assert '<div class="l note"><span>&lt;lost&gt;\n</span></div>' in drawn


def test_rows_that_come_go_into_the_group_that_the_page_has() -> None:
    group = LineGroup(1, "x")
    lines = [
        OutputLine(2, (StyledText("a"),), group),
        OutputLine(4, (StyledText("b"),)),
        OutputLine(5, (StyledText("y"),), LineGroup(5, "y")),
    ]

    going_on = list(appended_rows(lines, LinePosition(20, 2, group=group), LineGroup(5, "y"), is_all=False))
    anew = list(appended_rows(lines, START, None, is_all=False))

    assert [each.target for each in going_on] == ["G1", "rows", "rows"]
    assert "open" in str(going_on[2].rows)
    assert [each.target for each in anew] == ["rows", "rows", "rows"]
    assert 'id="G1"' in str(anew[0].rows)


def test_the_first_lines_are_as_many_as_fit() -> None:
    kept = FirstLines(DisplayBounds(3, 500))
    kept.add([OutputLine(1, (StyledText("x" * 1000),))])
    assert (len(kept.lines), kept.is_full) == (1, False)

    kept.add([OutputLine(2, ())])
    assert (len(kept.lines), kept.is_full) == (1, True)
    short = FirstLines(DisplayBounds(3, 500))
    short.add(OutputLine(number, ()) for number in range(1, 6))
    assert ([line.number for line in short.lines], short.is_full) == ([1, 2, 3], True)


def test_each_colour_of_a_job_can_be_read_on_each_other_in_both_themes() -> None:
    sheet = (STATIC / "page.css").read_text()
    light, *darks = (
        dict(re.findall(r"--(\w+): (#\w+)", block)) for block in re.findall(r"\{[^{}]*--b15:[^{}]*\}", sheet)
    )
    assert len(darks) == 2
    assert darks[0] == darks[1]

    for theme in (light, darks[0]):
        texts = [*(theme[f"f{number}"] for number in range(16)), theme["text"]]
        behind = [*(theme[f"b{number}"] for number in range(16)), *_plain(theme)]
        poor = [(text, back) for text, back in product(texts, behind) if _contrast(text, back) < ENOUGH]
        assert poor == []
    for style in (Style(fore=number, back=number) for number in range(16)):
        drawn = str(rows_html([OutputLine(1, (StyledText("x", style),))]))
        assert all(f".{name} {{" in sheet for name in re.findall(r"t-\w+", drawn))


def _plain(theme: Mapping[str, str]) -> tuple[str, ...]:
    """What is behind a line, one that was found, and one that a link leads to."""
    return theme["raised"], theme["surface"], theme["mark"]


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2, "contrast ratio"."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
