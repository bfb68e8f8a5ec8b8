"""What a terminal shows of a line, told in examples; that it holds for all bytes is in tests/property/rapid."""

import pytest

from daemons.rapid.page.terminal import (
    _NARROW,
    LONGEST,
    PLAIN,
    LineGroup,
    LinePosition,
    OutputLine,
    Style,
    StyledText,
    Terminal,
    _width,
)

RED = Style(fore=1)


def lines(*pieces: bytes) -> list[OutputLine]:
    terminal = Terminal()
    return [line for piece in pieces for line in terminal.feed(piece)]


def shown(printed: bytes) -> str:
    (line,) = lines(printed + b"\n")
    return line.text


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        (b"10%\r50%\r100%", "100%"),
        (b"Reading\rOK", "OKading"),
        (b"Reading\r\x1b[KOK", "OK"),
        (b"Reading\x1b[2K\rOK", "OK"),
        (b"working |\b/\b-\bdone", "working done"),
        (b"ab\b\b\b\bc", "cb"),
        (b"done\r", "done"),
        (b"a\tb", "a       b"),
        (b"12345678\t9", "12345678        9"),
        (b"12345\x1b[3DX", "12X45"),
        (b"12345\x1b[3D\x1b[1K", "   45"),
        (b"1\x1b[3C2\x1b[2G3", "13  2"),
        ("漢字\rx".encode(), "x 字"),
        ("漢字\b\bx".encode(), "漢x "),
        ("e\u0301\bo".encode(), "o"),
        ("\u0301".encode(), ""),
        ("漢\u0301\r字\u0302".encode(), "字\u0302"),
        ("漢\x1b[m\u0301".encode(), "漢\u0301"),
        ("漢\u0301\rx".encode(), "x "),
        (b"a\x1b[3\x18b\x1b[3\x1ac", "abc"),
        (b"a\x1b]0;\x18b\x1b]0;\x1ac", "abc"),
        (b"\x07a\x00b\x7fc\x0e", "abc"),
    ],
)
def test_the_cursor_moves_in_its_line(printed: bytes, seen: str) -> None:
    assert shown(printed) == seen


@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b]0;a title\x07",
        b"\x1b]8;;https://evil.example/\x1b\\",
        b"\x1b]52;c;cm0gLXJmIC8=\x1b\\",
        b'\x1bP$q"p\x1b\\',
        b"\x1b_Gf=100;AAAA\x1b\\",
        b"\x1b[?1049h",
        b"\x1b[8;1t",
        b"\x1b[5i",
        b"\x1b[>4;1m",
        b"\x1b[" + b"9" * 200 + b"m",
        b"\x1b(0",
        b"\x1b#8",
        b"\x1b=",
        "\x9d0;title\x9c".encode(),
        "\x9b?25l".encode(),
        "\x85".encode(),
    ],
)
def test_what_is_for_the_terminal_itself_is_not_shown_and_does_nothing(sequence: bytes) -> None:
    assert lines(b"a" + sequence + b"b\n") == [OutputLine(1, (StyledText("ab"),))]


def test_what_turns_the_direction_of_writing_is_named() -> None:
    assert shown("gpj.\u202eexe".encode()) == "gpj.\\u202eexe"


def test_a_sequence_without_an_end_takes_no_more_than_its_line() -> None:
    assert [line.text for line in lines(b"a\x1b]0;never\nb\x1b[3\nc\x1b\nd\n")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("31", RED),
        ("1;3;4;9;91;104", Style(fore=9, back=12, bold=True, italic=True, underlined=True, struck=True)),
        ("1;2;22", PLAIN),
        ("31;0", PLAIN),
        ("31;", PLAIN),
        ("31;44;39;49", PLAIN),
        ("7", Style(inverse=True)),
        ("4:3", Style(underlined=True)),
        ("4;4:0", PLAIN),
        ("38;5;9", Style(fore=9)),
        ("38:5:9", Style(fore=9)),
        ("38;5;196;4", Style(fore=9, underlined=True)),
        ("48;5;22", Style(back=2)),
        ("38;5;240", Style(fore=8)),
        ("38;5;300;1", Style(bold=True)),
        ("38;2;250;120;0", Style(fore=9)),
        ("38:2::0:0:128", Style(fore=4)),
        ("38:2:255:255:255", Style(fore=15)),
        ("58;5;1;1", Style(bold=True)),
        ("58:2::1:2:3", PLAIN),
        ("38;5", PLAIN),
        ("38;2;1;2", PLAIN),
        ("38;9;1", Style(bold=True)),
        ("8", PLAIN),
        ("5;73;999", PLAIN),
    ],
)
def test_colours_and_weights(parameters: str, style: Style) -> None:
    assert lines(f"\x1b[{parameters}mx\n".encode()) == [OutputLine(1, (StyledText("x", style),))]


def test_a_style_goes_on_over_lines_until_it_is_changed() -> None:
    first, second, third = lines(b"a\x1b[31mb\nc\n\x1b[md\n")

    assert first.spans == (StyledText("a"), StyledText("b", RED))
    assert second.spans == (StyledText("c", RED),)
    assert third.spans == (StyledText("d"),)


def test_a_place_has_the_style_and_the_group_in_which_its_line_begins() -> None:
    terminal = Terminal()

    terminal.feed("::group::x\n€\x1b[31m\nb\x1b[1mc\n".encode())
    before = terminal.place
    terminal.feed(b"::endgroup::\x1b[0m\n")

    assert before == LinePosition(27, 4, Style(fore=1, bold=True), LineGroup(1, "x"))
    assert terminal.place == LinePosition(44, 5)
    assert Terminal(before).feed(b"d\n") == [
        OutputLine(4, (StyledText("d", Style(fore=1, bold=True)),), LineGroup(1, "x"))
    ]


def test_characters_and_sequences_that_are_cut_are_whole() -> None:
    assert lines(b"\xe2", b"\x82", b"\xac\x1b", b"[3", b"1m", b"x\n") == [
        OutputLine(1, (StyledText("€"), StyledText("x", RED)))
    ]


@pytest.mark.parametrize("pieces", [(b"\x1b[1m", b"a\n::group::x\nb\n"), (b"::group::x\x1b[2K\r", b"a\nb\n")])
def test_a_marker_is_one_wherever_the_bytes_are_cut(pieces: tuple[bytes, bytes]) -> None:
    assert lines(*pieces) == lines(b"".join(pieces))


def test_a_line_is_kept_up_to_its_longest() -> None:
    (line,) = lines(b"x" * (LONGEST + 1) + b"\n")
    (whole,) = lines(b"x" * LONGEST + b"\n")
    (over,) = lines(b"\x1b[99999Gx\x1b[2Gyz\n")

    assert (len(line.text), line.is_cut) == (LONGEST, True)
    assert (len(whole.text), whole.is_cut) == (LONGEST, False)
    assert (over.text, over.is_cut) == (" yz", True)
    for erased in (b"\r\x1b[K", b"\x1b[2K", b"\x1b[9G\x1b[K"):
        (line,) = lines(b"x" * (LONGEST + 1) + erased + b"\n")
        assert not line.is_cut


def test_marks_of_one_character_are_bounded() -> None:
    assert len(shown(b"e" + "\u0301".encode() * 1000)) == 9


def test_groups_are_named_and_end_and_do_not_nest() -> None:
    begin, end = b"before\n::group::one \x1b[1m<two>\x1b[0m\r\nin\n", b"::endgroup::\n"
    found = lines(begin, b"::group::next\nin\n", end, b"out\n", end, b"::group::\n")

    one, following = LineGroup(2, "one <two>"), LineGroup(4, "next")
    assert found == [
        OutputLine(1, (StyledText("before"),)),
        OutputLine(2, (StyledText("one <two>"),), one),
        OutputLine(3, (StyledText("in"),), one),
        OutputLine(4, (StyledText("next"),), following),
        OutputLine(5, (StyledText("in"),), following),
        OutputLine(7, (StyledText("out"),)),
        # there is none to end
        OutputLine(8, (StyledText("::endgroup::"),)),
        OutputLine(9, (), LineGroup(9, "")),
    ]
    assert [line.number for line in found if line.is_heading] == [2, 4, 9]
    # a marker begins its line as it was printed
    assert lines(b"\x1b[m::group::x\n") == [OutputLine(1, (StyledText("::group::x"),))]


@pytest.mark.parametrize(
    "passed",
    [
        b"\x1b[31mred",
        b"\x1b[1m\x1b[31m",
        b"\x1b[1m\x1b[0m\x1b[4m\x1b[31m",
        b"\x1b[1m\x1b[m",
        b"\x1b[1m\x1bc",
        b"\x1b]0;\x1b[1m\x07",
        b"\x1b]0;[1m",
        b"\x1b[3\x0c1m",
        "\x9b31m".encode(),
        "\x9d0;\x1b[31m".encode(),
        b"::group::a\n::group::b \x1b[1mc\tc\x1b[m",
        b"::group::a\n::endgroup::",
        b"::group::a\n::endgroup::\x1b[m\r",
        b"::group::a\n::endgroup::no",
        b"::group::a\n ::endgroup::",
        b"::group::a\nx::endgroup::",
        b"::group::a\n::end\x1b[mgroup::",
        b"::group::a\n::group::\x08\x08b",
        b"x::group::a",
        b"::endgroup::",
        b"\xc3\n\xa9",
    ],
)
@pytest.mark.parametrize("before", [b"", b"::group::before\n\x1b[3m"])
def test_what_is_passed_over_has_its_effect(passed: bytes, before: bytes) -> None:
    printed = before + b"first\n" + passed + b"\nlast\nand"
    all_lines, terminal = Terminal(), Terminal()
    all_lines.feed(printed)

    terminal.feed_where(printed, lambda text: False)

    assert (terminal.place, terminal.end, terminal.tail) == (all_lines.place, all_lines.end, all_lines.tail)


@pytest.mark.parametrize(
    "line",
    [
        b"a word",
        b"a w\x1b[31mor\x1b[md",
        b"a wo\x1b[Krd",
        b"a wo\x00rd",
        b"a wxx\b\bord",
        b"x wxrd\ra word",
        b"a\tword",
        b"\x1b]0;w\x07a word",
        b"a wo\x1b[?25lrd",
        "a wo\x9b31mrd".encode(),
        "a \u202eword".encode(),
    ],
)
def test_a_line_with_something_wanted_is_not_passed_over(line: bytes) -> None:
    printed = b"first\nsecond\n" + line + b"\nlast\n"

    found = Terminal().feed_where(printed, lambda text: "word" in text)

    assert "word" in "".join(each.text for each in found)


def test_lines_without_controls_are_passed_over() -> None:
    printed = "first\n\x1b[31msécond\x1b[m\r\nthird\nlast\nand".encode()

    found = Terminal().feed_where(printed, lambda text: False)

    assert [each.text for each in found] == ["first"]


def test_lost_bytes_end_the_line_and_what_goes_on_over_lines() -> None:
    terminal = Terminal()
    terminal.feed(b"::group::x\n\x1b[31mhalf \xe2")

    half, note = terminal.skip(70)
    (rest,) = terminal.feed(b"rest\n")

    assert half == OutputLine(2, (StyledText("half \ufffd", RED),), LineGroup(1, "x"))
    assert (note.number, note.is_note) == (3, True)
    assert rest == OutputLine(3, (StyledText("rest"),))
    assert (terminal.end, terminal.place) == (97, LinePosition(97, 4))


@pytest.mark.parametrize(
    "word",
    [
        "",
        "4",
        "1.2",
        "-1.2..",
        "1.2.x.",
        "1.2.31.x",
        "1.2.31.3.\n",
        "1.2.31.3.é",
        "1" * 19 + ".1..",
        "\u0661.1..",
        "1.2.31.3." + "x" * 4001,
    ],
)
def test_words_that_are_no_place(word: str) -> None:
    assert LinePosition.read(word) is None


def test_a_place_is_one_word() -> None:
    place = LinePosition(7, 3, Style(fore=9, back=12, bold=True), LineGroup(2, "a. b/é\u202e"))

    assert str(place) == "7.3.1-91-104.2.a.%20b%2F%C3%A9%E2%80%AE"
    found = LinePosition.read(str(place))
    assert found is not None
    # shown as it would be by a terminal, whoever made the word
    assert found.group == LineGroup(2, "a. b/é\\u202e")
    assert LinePosition.read("1.1.999-38.1.%0a%1b%00<b>") == LinePosition(1, 1, PLAIN, LineGroup(1, "\\x1b\\x00<b>"))


def test_the_short_way_for_widths_is_right() -> None:
    narrow = [char for char in map(chr, range(0x20, 0x3000)) if _NARROW.fullmatch(char)]

    assert len(narrow) > 1000
    assert {_width(char) for char in narrow} == {1}
