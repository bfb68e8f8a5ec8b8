"""The lines that a terminal would show: the renderer and a naive twin agree, however the bytes are cut."""

import re
import unicodedata
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from daemons.rapid.page.terminal import (
    LONGEST,
    PLAIN,
    DisplayBounds,
    LastLines,
    LineGroup,
    LinePosition,
    OutputLine,
    Style,
    StyledText,
    Terminal,
    _restyled,
    weight_of,
)
from daemons.rapid.page.views.outputview import rows_html

PIECES = [
    *(b"a", b"bc", b"0123456789", b"   ", b"<b>&\"'", b"::group::", b"::endgroup::"),
    *(b"::group::x\n", b"::endgroup::\n", "é".encode(), "€".encode(), "漢字".encode()),
    *("\u0301".encode(), "👩\u200d🚒".encode(), "\u202e".encode(), b"\x00", b"\x07", b"\x0c", b"\x0e", b"\x7f"),
    *(b"\n", b"\n", b"\r\n", b"\r", b"\r", b"\b", b"\b\b\b", b"\t", b"\x18"),
    *(b"\x1b[31m", b"\x1b[1;4;42m", b"\x1b[0m", b"\x1b[m", b"\x1b[7m", b"\x1b[38;5;208m", b"\x1b[48:2::1:200:3m"),
    *(b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[3D", b"\x1b[2C", b"\x1b[5G", b"\x1b[G", b"\x1b[99999C"),
    *(b"\x1b[?25l", b"\x1b[2J", b"\x1b[H", b"\x1b(B", b"\x1bc", b"\x1b7", b"\x1b[>4;1m", b"\x1b[" + b"1;" * 40 + b"m"),
    *(b"\x1b]0;title\x07", b"\x1b]8;;http://x\x1b\\", b"\x1bPq#0;2;0;0;0\x1b\\", b"\x1b]52;c;aGk="),
    *(b"\x1b", b"\x1b[", b"\x1b[3", "\x9b32m".encode(), "\x9dtitle\x9c".encode(), "\x85".encode()),
    *(b"\x9b", b"\xc3", b"\xe2\x82", b"\xf0\x9f"),
]
# they change the direction of writing, and are shown by their names
BIDI = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
USUAL = [b"a", b"bc", b"\n", b"\r", b"\x1b[31m", b"\x1b[0m", "é漢".encode()]
OUTPUTS = st.lists(st.sampled_from(USUAL) | st.sampled_from(PIECES) | st.binary(max_size=6), max_size=60).map(b"".join)

TAG = re.compile(
    r'</?(?:div|span|mark|details|summary)(?: (?:class|id|open)="[-\w ]*")*>'
    r'|<a href="#L\d+" data-n="\d+" tabindex="-1" aria-hidden="true">|</a>|<i data-n="\d+"></i>'
)

# a sequence as a whole, which may lack its end only where the line ends
SEQUENCE = re.compile(
    r"""
    (?:\x1b\[|\x9b) (?P<parameters>[\x00-\x17\x19\x1c-\x3f\x7f]*) (?P<final>[\x40-\x7e])?
    | (?:\x1b[PX\]^_]|[\x90\x98\x9d\x9e\x9f]) [^\x07\x18\x1a\x1b\x9c]* [\x07\x18\x1a\x9c]?
    | \x1b (?P<inside>[\x00-\x17\x19\x1c-\x1f]*) (?P<middle>[\x20-\x2f][\x00-\x17\x19\x1c-\x2f]*)?
      (?P<last>[\x20-\x7f])?
    """,
    re.VERBOSE,
)


def naive(data: bytes) -> list[OutputLine]:
    """The lines, each from the text of the line as a whole; the last one has no line feed."""
    lines: list[OutputLine] = []
    style, group = PLAIN, None
    for number, text in enumerate(data.decode(errors="replace").split("\n"), 1):
        cells, style, is_cut = naive_line(text, style)
        spans: list[StyledText] = []
        for char, look in cells:
            if spans and spans[-1].style == look:
                spans[-1] = StyledText(spans[-1].text + char, look)
            else:
                spans.append(StyledText(char, look))
        shown = "".join(char for char, _ in cells)
        is_end = group is not None and text.startswith("::endgroup::") and shown.rstrip() == "::endgroup::"
        if text.startswith("::group::"):
            group = LineGroup(number, shown.removeprefix("::group::").strip()[:200])
            spans = [StyledText(group.name)] if group.name else []
        if not is_end:
            lines.append(OutputLine(number, tuple(spans), group, is_cut))
        group = None if is_end else group
    return lines


def naive_line(text: str, style: Style) -> tuple[list[tuple[str, Style]], Style, bool]:
    """What a line ends up with: (cells, style of what follows, whether its end is lost)."""
    cells: list[tuple[str, Style]] = []
    column, is_cut, at = 0, False, 0

    def put(char: str) -> None:
        nonlocal column, is_cut
        is_mark = ord(char) >= 0x300 and unicodedata.category(char) in ("Mn", "Me", "Cf")
        width = 0 if is_mark else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if column >= LONGEST or (column + width > LONGEST):
            column, is_cut = LONGEST, True
            return
        if is_mark:
            before = min(column, len(cells)) - 1
            before -= before >= 0 and cells[before][0] == ""
            if before >= 0 and len(cells[before][0]) < 9:
                cells[before] = (cells[before][0] + char, cells[before][1])
            return
        for part in (char, "")[:width]:
            while len(cells) <= column:
                cells.append((" ", PLAIN))
            blank_half(column)
            cells[column] = (part, style)
            column += 1

    def blank_half(at: int) -> None:
        if cells[at][0] == "":
            cells[at - 1] = (" ", cells[at - 1][1])
        elif at + 1 < len(cells) and cells[at + 1][0] == "":
            cells[at + 1] = (" ", cells[at + 1][1])

    def erase(kind: int) -> None:
        nonlocal cells, is_cut
        if kind == 0:
            if column < len(cells):
                blank_half(column)
                del cells[column:]
            is_cut = False
        elif kind == 1:
            if column + 1 < len(cells):
                blank_half(column)
                cells[: column + 1] = [(" ", PLAIN)] * (column + 1)
            else:
                cells, is_cut = [], False
        elif kind == 2:
            cells, is_cut = [], False

    def control(char: str) -> None:
        nonlocal column
        if char == "\r":
            column = 0
        elif char == "\b":
            column = max(column - 1, 0)
        elif char == "\t":
            column = min(column // 8 * 8 + 8, LONGEST)

    def act(final: str, parameters: str) -> None:
        nonlocal column, style
        if len(parameters) > 64:
            return
        if final == "m" and not set(parameters) - set("0123456789;:"):
            style = _restyled(style, parameters)
        elif not re.fullmatch("[0-9]{0,6}", parameters):
            return
        elif final in "JK":
            erase(int(parameters or 0))
        elif final in "CDG":
            count = max(int(parameters or 1), 1)
            column = column + count if final == "C" else column - count if final == "D" else count - 1
            column = min(max(column, 0), LONGEST)

    while at < len(text):
        found = SEQUENCE.match(text, at)
        if found is None:
            char, at = text[at], at + 1
            if "\x7f" <= char <= "\x9f":
                continue
            if char < " ":
                control(char)
                continue
            for shown in char.encode("unicode_escape").decode() if BIDI.match(char) else char:
                put(shown)
            continue
        at = found.end()
        inside = found["parameters"] or (found["inside"] or "") + (found["middle"] or "")
        for char in inside:
            if char < " ":
                control(char)
        if found["final"]:
            act(found["final"], "".join(char for char in inside if " " <= char <= "?"))
        elif found["last"] == "c" and found["middle"] is None:
            style = PLAIN
    return cells, style, is_cut


def rendered(pieces: Sequence[bytes], terminal: Terminal | None = None) -> list[OutputLine]:
    """All lines, and at last the one without a line feed."""
    terminal = terminal or Terminal()
    lines = [line for piece in pieces for line in terminal.feed(piece)]
    terminal.finish()
    return [*lines, *([terminal.tail] if terminal.tail else [])]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


@given(OUTPUTS)
def test_the_lines_are_those_of_a_naive_terminal(data: bytes) -> None:
    *expected, last = naive(data) or [OutputLine(0, ())]

    found = rendered([data])

    assert [line for line in found if line.number < last.number] == expected
    tail = [line for line in found if line.number == last.number]
    if not last.is_heading:
        # a heading is one when its line has ended
        assert tail == ([last] if last.spans else [])


@given(OUTPUTS, st.lists(st.integers(0, 300), max_size=12))
def test_cuts_change_nothing(data: bytes, places: list[int]) -> None:
    assert rendered(cut(data, places)) == rendered([data])


@given(OUTPUTS, st.integers(0, 300))
def test_another_terminal_goes_on_from_a_place_that_was_sent_as_a_word(data: bytes, at: int) -> None:
    first = Terminal()
    lines = first.feed(data[:at])
    place = LinePosition.read(str(first.place))
    assert place == first.place

    assert [*lines, *rendered([data[place.offset :]], Terminal(place))] == rendered([data])


SIMPLE = st.lists(
    st.sampled_from(
        [*USUAL, b"\n", b"\r\n", b"::group::x", b"\n::group::", b"\n::endgroup::", b"::endgroup::\n", b"\x1b[1m"]
    ),
    max_size=40,
).map(b"".join)


@given(SIMPLE | OUTPUTS, st.lists(st.integers(0, 300), max_size=4), st.sampled_from(["a", "bc", "x", "31", "é"]))
def test_lines_that_are_passed_over_have_nothing_that_is_wanted(data: bytes, places: list[int], wanted: str) -> None:
    all_lines, terminal, others = Terminal(), Terminal(), Terminal()

    for piece in cut(data, places):
        lines = all_lines.feed(piece)
        found = terminal.feed_where(piece, lambda text: wanted in text)
        others.feed_where(piece, lambda text: False)

        assert [line for line in found if wanted in line.text] == [line for line in lines if wanted in line.text]
        for each in (terminal, others):
            assert (each.place, each.end, each.tail) == (all_lines.place, all_lines.end, all_lines.tail)


@given(OUTPUTS, st.text(max_size=3))
def test_pages_get_neither_markup_nor_controls(data: bytes, wanted: str) -> None:
    html = str(rows_html(rendered([data]), find=wanted))

    rest = TAG.sub("", html)
    assert not re.search(r"[<>\"']|&(?!(?:amp|lt|gt|#34|#39);)", rest)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", html)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5))
def test_any_bytes_are_lines_that_are_counted(data: bytes, places: list[int]) -> None:
    terminal = Terminal()
    for piece in cut(data, places):
        terminal.feed(piece)

    assert terminal.place.number == data.count(b"\n") + 1
    assert terminal.place.offset == data.rfind(b"\n") + 1
    assert terminal.end == len(data)


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 10), st.integers(1, 2000))
def test_the_last_lines_are_as_many_as_fit(lengths: list[int], most: int, weight: int) -> None:
    lines = [OutputLine(number, (StyledText("x" * length),)) for number, length in enumerate(lengths, 1)]
    kept = LastLines(DisplayBounds(most, weight))

    kept.add(lines)

    assert kept.lines == tuple(lines[kept.left_out :])
    for begin in range(len(lines)):
        part = lines[begin:]
        fits = len(part) <= most and sum(map(weight_of, part)) <= weight
        assert (begin >= kept.left_out) == (fits or len(part) == 1)


@given(
    printed=st.lists(
        st.sampled_from([b"\n", b"a", "é€".encode(), b"\xff", b"\r", b"\x1b[31m", b"::group::x", b"::endgroup::"]),
        max_size=40,
    ).map(b"".join),
    cut=st.integers(0, 60),
    begin=st.integers(0, 5),
)
def test_a_line_knows_the_byte_with_which_it_begins(printed: bytes, cut: int, begin: int) -> None:
    terminal = Terminal(LinePosition(begin))
    lines = terminal.feed(printed[:cut]) + terminal.feed_where(printed[cut:], lambda text: True)
    begins = [0, *(at + 1 for at, byte in enumerate(printed) if byte == 10)]

    found = [*lines, *([terminal.tail] if terminal.tail is not None else [])]

    assert [line.offset for line in found] == [begin + begins[line.number - 1] for line in found]
