"""The output of a job as a terminal would show it: bytes in, lines of styled text out.

Theory. There is no screen, only one line that is being written: what a line feed has ended never changes again. Within
the line the cursor moves as a terminal's does (CR, BS, TAB, and the control sequences that move it or erase), so a
progress bar is seen in its last state. SGR gives the text colours and weight. All other controls and sequences do
nothing and are not shown; a line feed also ends a sequence that has not ended. So a line depends on the bytes before
it by four things only, which make a `LinePosition`: where it begins, its number, the style, and the group that is open.
Whoever has a place can go on from there, in another process, too.

A line that begins with `::group::` begins a group with that name, and a line `::endgroup::` or the next group ends it;
groups do not nest, as with the CI systems that have them.

A line keeps runs of text until something is written over; only then it becomes cells. A cell has a character with the
marks that combine with it; a wide character has two cells, the second of which is empty.

Source: ECMA-48, 5.4 and 8.3; the parser follows https://vt100.net/emu/dec_ansi_parser.
"""

import codecs
import enum
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Final
from urllib.parse import quote, unquote

import attrs

from common.printable import BIDI, defused

# columns of a line that are kept
LONGEST: Final = 4096
# characters of the name of a group that are kept
LONGEST_NAME: Final = 200
# marks that one character may carry
_MOST_MARKS: Final = 8
# characters of the parameters of a control sequence; a longer one does nothing
_MOST_PARAMETERS: Final = 64
_TAB: Final = 8
_GROUP: Final = "::group::"
_END_GROUP: Final = "::endgroup::"


@attrs.frozen
class Style:
    """How a text looks. Colours are 0 to 15, as of `SGR`; None: the usual one."""

    fore: int | None = None
    back: int | None = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underlined: bool = False
    inverse: bool = False
    struck: bool = False


PLAIN: Final = Style()


@attrs.frozen
class StyledText:
    text: str
    style: Style = PLAIN


@attrs.frozen
class LineGroup:
    """Lines that are folded together."""

    # of the line that begins it
    number: int
    name: str


@attrs.frozen
class OutputLine:
    number: int
    spans: tuple[StyledText, ...]
    # the one that it is in, or begins
    group: LineGroup | None = None
    # whether its end is not kept
    is_cut: bool = False
    # whether it is not output, but tells of output that is lost
    is_note: bool = False
    # number of its first byte; two lines that look alike are the same
    offset: int = attrs.field(default=0, eq=False)

    @property
    def is_heading(self) -> bool:
        """Whether it begins its group."""
        return self.group is not None and self.group.number == self.number

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@attrs.frozen
class LinePosition:
    """Where a line begins, and what it depends on."""

    # bytes before it
    offset: int = 0
    number: int = 1
    style: Style = PLAIN
    group: LineGroup | None = None

    def __str__(self) -> str:
        """One word of ASCII, for addresses and ids of events."""
        group = f"{self.group.number}.{quote(self.group.name, safe='')}" if self.group is not None else ""
        return f"{self.offset}.{self.number}.{_sgr(self.style).replace(';', '-')}.{group}"

    @classmethod
    def read(cls, word: str) -> "LinePosition | None":
        """The place that the word stands for; None: it stands for none."""
        found = _PLACE.fullmatch(word)
        if found is None:
            return None
        offset, number, style, begun, name = found.groups()
        group = None if begun is None else LineGroup(int(begun), _C0.sub("", defused(unquote(name)))[:LONGEST_NAME])
        return cls(int(offset), int(number), _restyled(PLAIN, style.replace("-", ";") or "0"), group)


START: Final = LinePosition()
_PLACE: Final = re.compile(
    r"(\d{1,18})\.(\d{1,18})\.((?:\d{1,3}(?:-\d{1,3}){0,9})?)\.(?:(\d{1,18})\.([!-~]{0,4000}))?", re.ASCII
)
_C0: Final = re.compile(r"[\x00-\x1f]")


# Select Graphic Rendition. Colours beyond the sixteen become the nearest of these, for which pages have classes that
# can be read on a light and on a dark page. Hidden text is shown: a log must not hide anything.


_SWITCHES: Final = {
    1: ("bold", True),
    2: ("faint", True),
    3: ("italic", True),
    4: ("underlined", True),
    7: ("inverse", True),
    9: ("struck", True),
    21: ("underlined", True),
    23: ("italic", False),
    24: ("underlined", False),
    27: ("inverse", False),
    29: ("struck", False),
}
_CUBE: Final = (0, 95, 135, 175, 215, 255)


@lru_cache(maxsize=4096)
def _restyled(style: Style, parameters: str) -> Style:
    """The style after a sequence SGR with these parameters."""
    # 38;2;1;2;3 and 38:2::1:2:3 are the same; 4:3 is one kind of 4
    values = [[int(part or 0) for part in word.split(":")] for word in parameters.split(";")]
    while values:
        code, *parts = values.pop(0)
        if code in (38, 48, 58):
            colour = _colour_of_parts(parts) if parts else _colour_of_next(values)
            if colour is not None and code == 38:
                style = attrs.evolve(style, fore=colour)
            elif colour is not None and code == 48:
                style = attrs.evolve(style, back=colour)
        elif code == 4 and parts:
            style = attrs.evolve(style, underlined=parts[0] != 0)
        else:
            style = _switched(style, code)
    return style


def _switched(style: Style, code: int) -> Style:
    if code == 0:
        return PLAIN
    if code in _SWITCHES:
        name, value = _SWITCHES[code]
        return attrs.evolve(style, **{name: value})
    if code == 22:
        return attrs.evolve(style, bold=False, faint=False)
    place, colour = divmod(code, 10)
    if place in (3, 9) and colour < 8:
        return attrs.evolve(style, fore=colour + 8 * (place == 9))
    if place in (4, 10) and colour < 8:
        return attrs.evolve(style, back=colour + 8 * (place == 10))
    if code == 39:
        return attrs.evolve(style, fore=None)
    return attrs.evolve(style, back=None) if code == 49 else style


def _colour_of_parts(parts: Sequence[int]) -> int | None:
    """`5:N`; `2:R:G:B`, or with the number of a colour space before R."""
    if parts[0] == 5 and len(parts) > 1:
        return _of_palette(parts[1])
    return _nearest(*parts[-3:]) if parts[0] == 2 and 4 <= len(parts) <= 5 else None


def _colour_of_next(values: list[list[int]]) -> int | None:
    """`5;N` or `2;R;G;B`, which are taken away."""
    kind = values.pop(0)[0] if values else 0
    count = {5: 1, 2: 3}.get(kind, 0)
    taken = [values.pop(0)[0] for _ in range(min(count, len(values)))]
    if not count or len(taken) < count:
        return None
    return _of_palette(taken[0]) if kind == 5 else _nearest(*taken)


def _of_palette(number: int) -> int | None:
    """One of 256: the sixteen, a cube of 6 x 6 x 6, and 24 greys."""
    if number < 16:
        return number
    if number < 232:
        number -= 16
        return _nearest(_CUBE[number // 36], _CUBE[number // 6 % 6], _CUBE[number % 6])
    grey = 8 + 10 * (number - 232)
    return _nearest(grey, grey, grey) if number < 256 else None


def _nearest(red: int, green: int, blue: int) -> int:
    """The one of the sixteen that has the same hue, and is about as bright."""
    high, low = max(red, green, blue), min(red, green, blue)
    if high - low < 40:
        return 0 if high < 64 else 8 if high < 144 else 7 if high < 224 else 15
    middle = (high + low) / 2
    return (red > middle) + 2 * (green > middle) + 4 * (blue > middle) + (8 if high >= 208 else 0)


def _sgr(style: Style) -> str:
    """The parameters that make this style of a plain one."""
    codes = [code for code, (name, value) in _SWITCHES.items() if value and code != 21 and getattr(style, name)]
    for base, colour in ((30, style.fore), (40, style.back)):
        if colour is not None:
            codes.append(base + colour if colour < 8 else base + 52 + colour)
    return ";".join(map(str, codes))


# The line that is being written.


@lru_cache(maxsize=16384)
def _width(char: str) -> int:
    """Columns that a character takes; 0: it belongs to the one before it."""
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


# some of those that take one column
_NARROW: Final = re.compile("[ -~\u00a0-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u2319\u2500-\u25fc]*")


_STYLE_OF: Final = attrgetter("style")


class _OpenLine:
    """Holds here: either `_cells` is None, or `_runs` is empty."""

    def __init__(self) -> None:
        self._runs: list[StyledText] = []
        self._cells: list[tuple[str, Style]] | None = None
        # columns that have something
        self._length = 0
        # from 0 to `LONGEST`
        self.column = 0
        self.is_cut = False

    def spans(self) -> tuple[StyledText, ...]:
        """The text, each style in one span."""
        runs = (
            self._runs
            if self._cells is None
            else map(StyledText, *zip(*self._cells, strict=True))
            if self._cells
            else ()
        )
        found: list[StyledText] = []
        for _, group in groupby(runs, _STYLE_OF):
            first, *more = group
            found.append(StyledText("".join([first.text, *(run.text for run in more)]), first.style) if more else first)
        return tuple(found)

    def move(self, column: int) -> None:
        self.column = min(max(column, 0), LONGEST)

    def write(self, text: str, style: Style) -> None:
        """Write characters without controls from the cursor on."""
        if self.column >= LONGEST:
            self.is_cut = True
            return
        if self.column >= self._length or self.column == 0:
            widths = None if _NARROW.fullmatch(text) else list(map(_width, text))
            width = len(text) if widths is None else sum(widths)
            has_marks = widths is not None and 0 in widths
            if not has_marks and self.column + width <= LONGEST and (self.column or width >= self._length):
                self._add(text, width, style)
                return
        self._write_over(text, style)

    def _add(self, text: str, width: int, style: Style) -> None:
        """Write behind what there is, or over all of it."""
        if self.column == 0:
            self._cells, self._runs, self._length = None, [], 0
        blanks = " " * (self.column - self._length)
        if self._cells is None:
            self._runs += [StyledText(blanks), StyledText(text, style)] if blanks else [StyledText(text, style)]
        else:
            self._cells += [(" ", PLAIN)] * len(blanks)
            self._cells += _cells_of(text, style)
        self.column += width
        self._length = self.column

    def _write_over(self, text: str, style: Style) -> None:
        cells = self._as_cells()
        for char in text:
            width = _width(char)
            if width == 0:
                self._mark(cells, char)
                continue
            if self.column + width > LONGEST:
                self.column, self.is_cut = LONGEST, True
                break
            cells += [(" ", PLAIN)] * (self.column + width - len(cells))
            for at in range(self.column, self.column + width):
                self._part(cells, at)
            cells[self.column] = (char, style)
            if width == 2:
                cells[self.column + 1] = ("", style)
            self.column += width
        self._length = len(cells)

    def _mark(self, cells: list[tuple[str, Style]], mark: str) -> None:
        """Add a mark to the character before the cursor, if there is one."""
        at = min(self.column, len(cells)) - 1
        if at >= 0 and not cells[at][0]:
            at -= 1
        if at >= 0 and len(cells[at][0]) <= _MOST_MARKS:
            cells[at] = (cells[at][0] + mark, cells[at][1])

    @staticmethod
    def _part(cells: list[tuple[str, Style]], at: int) -> None:
        """Make a blank of the other half of a wide character, of which this cell will be something else."""
        if not cells[at][0]:
            cells[at - 1] = (" ", cells[at - 1][1])
        elif at + 1 < len(cells) and not cells[at + 1][0]:
            cells[at + 1] = (" ", cells[at + 1][1])

    def _as_cells(self) -> list[tuple[str, Style]]:
        if self._cells is None:
            self._cells = [cell for run in self._runs for cell in _cells_of(run.text, run.style)]
            self._runs = []
        return self._cells

    def erase_right(self) -> None:
        """Erase from the cursor on."""
        self.is_cut = False
        if self.column == 0:
            self.erase()
        elif self.column < self._length:
            cells = self._as_cells()
            self._part(cells, self.column)
            del cells[self.column :]
            self._length = self.column

    def erase_left(self) -> None:
        """Erase up to the cursor, and what is under it."""
        cells, end = self._as_cells(), self.column + 1
        if end >= len(cells):
            self.erase()
            return
        self._part(cells, self.column)
        cells[:end] = [(" ", PLAIN)] * end

    def erase(self) -> None:
        """Erase all; the cursor stays."""
        self._cells, self._runs, self._length, self.is_cut = None, [], 0, False


def _cells_of(text: str, style: Style) -> Iterator[tuple[str, Style]]:
    """Args: text: without marks."""
    for char in text:
        yield char, style
        if _width(char) == 2:
            yield "", style


# The parser.


class _State(enum.Enum):
    # text
    GROUND = enum.auto()
    # after ESC
    ESCAPE = enum.auto()
    # after ESC and an intermediate character: one more of them, or the last character
    INTERMEDIATE = enum.auto()
    # a control sequence
    SEQUENCE = enum.auto()
    # what is for the terminal itself: titles, links, pictures
    STRING = enum.auto()


_TEXT: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_MARKER: Final = re.compile(r"^(::group::|::endgroup::).*$", re.MULTILINE)
# what makes more of a text than what is written there, but for SGR
_NOT_SIMPLE: Final = re.compile("[\x00-\x09\x0b-\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)|" + BIDI)
_UNNAMED: Final = LineGroup(0, "")
_IN_STRING: Final = re.compile(r"[^\x07\x18\x1a\x1b\x9c]+")
_WHOLE_SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,64})m", re.ASCII)
_SEQUENCE, _STRINGS = "\x9b", "\x90\x98\x9d\x9e\x9f"


class Terminal:
    """Args: place: the line with which the bytes begin that it is fed with."""

    def __init__(self, place: LinePosition = START) -> None:
        # number of the byte that comes next
        self.end = place.offset
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        # of the line that is being written: its number, its first byte, the style with which it began, its group
        self._number = place.number
        self._offset = place.offset
        self._first_style = self._style = place.style
        self.group = place.group
        self._line = _OpenLine()
        self._state = _State.GROUND
        # of the sequence that is being read
        self._parameters = ""
        # the first characters of the line, controls and all: a marker of groups is known by them, also undrawn
        self._head = ""

    @property
    def place(self) -> LinePosition:
        """Where the line begins that is being written."""
        return LinePosition(self._offset, self._number, self._first_style, self.group)

    @property
    def tail(self) -> OutputLine | None:
        """The line that is being written; None: nothing of it is there. The beginning of a character is not shown."""
        spans = self._line.spans()
        is_cut = self._line.is_cut
        return OutputLine(self._number, spans, self.group, is_cut, offset=self._offset) if spans else None

    def feed(self, data: bytes) -> list[OutputLine]:
        """The lines that these bytes end. They may be cut anywhere."""
        *ended, rest = self._decoder.decode(data).split("\n")
        lines: list[OutputLine] = []
        at = 0
        for text in ended:
            line = self._plain_line(text)
            if line is None:
                self._write(text)
                line = self._ended()
            self._number += 1
            if line is not None:
                lines.append(line)
            # a line feed is one byte, and no part of another character
            at = data.index(b"\n", at) + 1
            self._offset = self.end + at
        if ended:
            self._first_style = self._style
        self.end += len(data)
        self._write(rest)
        return lines

    def feed_where(self, data: bytes, is_wanted: Callable[[str], bool]) -> list[OutputLine]:
        """As `feed`, without lines that are not wanted. Cost: a tenth of it where none is.

        Args: is_wanted: whether these lines have something that is wanted. It is asked about many lines at once, and
            not about all: others may come that are not wanted.
        """
        begin, end = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if begin == end:
            return self.feed(data)
        # lines that are here as a whole; of the first one another part may have come before
        lines = self.feed(data[:begin])
        text = data[begin:end].decode(errors="replace")
        shown = _WHOLE_SGR.sub("", text)
        if _NOT_SIMPLE.search(shown) or is_wanted(shown):
            lines += self.feed(data[begin:end])
        else:
            self._pass_over(text)
            self.end += end - begin
            self._offset = self.end
        return lines + self.feed(data[end:])

    def _pass_over(self, text: str) -> None:
        """Take whole lines that have no controls but those of the style."""
        begun, group = None, self.group
        for marker in _MARKER.finditer(text):
            if marker[1] == _GROUP:
                begun, group = marker, _UNNAMED
            elif _WHOLE_SGR.sub("", marker[0]).rstrip() == _END_GROUP:
                begun, group = None, None
        if begun is not None:
            number = self._number + text.count("\n", 0, begun.start())
            (line,) = Terminal(LinePosition(number=number)).feed(begun[0].encode() + b"\n")
            group = line.group
        styles = _WHOLE_SGR.findall(text)
        # what was before a reset has no effect
        resets = (at for at in range(len(styles) - 1, -1, -1) if styles[at] in ("", "0"))
        for parameters in styles[next(resets, 0) :]:
            self._style = _restyled(self._style, parameters)
        self._first_style, self.group = self._style, group
        self._number += text.count("\n")

    def skip(self, count: int) -> list[OutputLine]:
        """Tell in a line that so many bytes are lost, after the line that was being written."""
        self.finish()
        line = self._ended() if self._line.spans() else None
        self._number += line is not None
        self.end += count
        self._offset, self._first_style, self._style, self.group = self.end, PLAIN, PLAIN, None
        self._line, self._state, self._head = _OpenLine(), _State.GROUND, ""
        told = f"{count} bytes are not kept any more; lines are counted without them"
        note = OutputLine(self._number, (StyledText(told),), is_note=True)
        return [note] if line is None else [line, note]

    def finish(self) -> None:
        """No more comes: the beginning of a character is shown as one that is wrong."""
        self._write(self._decoder.decode(b"", final=True))

    def _plain_line(self, text: str) -> OutputLine | None:
        """The short way for most lines, with the same result; None: it is not one of them."""
        text = text.removesuffix("\r")
        is_plain = text.isascii() and text.isprintable() and text[:1] != ":" and len(text) <= LONGEST
        # holds here: without a head nothing of the line has come before
        if not is_plain or self._head:
            return None
        return OutputLine(
            self._number, (StyledText(text, self._style),) if text else (), self.group, offset=self._offset
        )

    def _ended(self) -> OutputLine | None:
        """End the line; None: it is a marker of groups, which is not shown."""
        spans, is_cut = self._line.spans(), self._line.is_cut
        self._line, self._state = _OpenLine(), _State.GROUND
        head, self._head = self._head, ""
        text = "".join(span.text for span in spans) if head.startswith("::") else ""
        if head.startswith(_GROUP):
            name = text.removeprefix(_GROUP).strip()[:LONGEST_NAME]
            self.group = LineGroup(self._number, name)
            return OutputLine(
                self._number, (StyledText(name),) if name else (), self.group, is_cut, offset=self._offset
            )
        if head == text.rstrip() == _END_GROUP and self.group is not None:
            self.group = None
            return None
        return OutputLine(self._number, spans, self.group, is_cut, offset=self._offset)

    def _write(self, text: str) -> None:
        """Take characters without a line feed."""
        if len(self._head) < len(_END_GROUP):
            self._head += text[: len(_END_GROUP) - len(self._head)]
        at = 0
        while at < len(text):
            if self._state is _State.GROUND and (run := _TEXT.match(text, at)):
                self._line.write(defused(run[0]), self._style)
                at = run.end()
            elif self._state is _State.GROUND and (whole := _WHOLE_SGR.match(text, at)):
                # the short way for most sequences, with the same result
                self._style = _restyled(self._style, whole[1])
                at = whole.end()
            elif self._state is _State.STRING and (run := _IN_STRING.match(text, at)):
                at = run.end()
            else:
                self._take(text[at])
                at += 1

    def _take(self, char: str) -> None:
        """Take a control, or a character of a sequence."""
        if char in "\x18\x1a":
            self._state = _State.GROUND
        elif char == "\x1b":
            self._state = _State.ESCAPE
        elif self._state is _State.STRING:
            # BEL and ST end it
            self._state = _State.GROUND
        elif char < " ":
            self._control(char)
        elif "\x80" <= char <= "\x9f":
            self._begin(char)
        elif self._state is _State.ESCAPE:
            self._escape(char)
        elif self._state is _State.INTERMEDIATE:
            self._state = _State.INTERMEDIATE if " " <= char <= "/" else _State.GROUND
            self._not_of_sequences(char)
        elif self._state is _State.SEQUENCE:
            self._of_sequence(char)

    def _control(self, char: str) -> None:
        """They do the same within sequences."""
        line = self._line
        if char == "\r":
            line.move(0)
        elif char == "\b":
            line.move(line.column - 1)
        elif char == "\t":
            line.move((line.column // _TAB + 1) * _TAB)

    def _begin(self, char: str) -> None:
        """C1, also as ESC and a letter."""
        self._parameters = ""
        self._state = _State.SEQUENCE if char == _SEQUENCE else _State.STRING if char in _STRINGS else _State.GROUND

    def _escape(self, char: str) -> None:
        if "@" <= char <= "_":
            self._begin(chr(ord(char) + 0x40))
        elif " " <= char <= "/":
            self._state = _State.INTERMEDIATE
        else:
            self._state = _State.GROUND
            if char == "c":
                self._style = PLAIN
            self._not_of_sequences(char)

    def _of_sequence(self, char: str) -> None:
        if " " <= char <= "?":
            # one more than allowed says that it is too long
            self._parameters = (self._parameters + char)[: _MOST_PARAMETERS + 1]
        elif char <= "~":
            self._state = _State.GROUND
            if len(self._parameters) <= _MOST_PARAMETERS:
                self._act(char, self._parameters)
        elif char != "\x7f":
            self._state = _State.GROUND
            self._not_of_sequences(char)

    def _not_of_sequences(self, char: str) -> None:
        """A character beyond ASCII has ended a sequence, and is text itself."""
        if char > "\x7f":
            self._line.write(defused(char), self._style)

    def _act(self, final: str, parameters: str) -> None:
        line = self._line
        if final == "m":
            if _SGR.fullmatch(parameters):
                self._style = _restyled(self._style, parameters)
        elif not _ONE_NUMBER.fullmatch(parameters):
            return
        elif final in "KJ":
            what = int(parameters or 0)
            if what == 0:
                line.erase_right()
            elif what == 1:
                line.erase_left()
            elif what == 2:
                line.erase()
        elif final in "CDG":
            count = max(int(parameters or 1), 1)
            line.move({"C": line.column + count, "D": line.column - count, "G": count - 1}[final])


_SGR: Final = re.compile(r"[0-9;:]*", re.ASCII)
_ONE_NUMBER: Final = re.compile(r"[0-9]{0,6}", re.ASCII)


# A bounded number of lines.


@attrs.frozen
class DisplayBounds:
    """What a page shows at most."""

    lines: int
    # of characters, and of what a browser must keep for lines and spans
    weight: int


def weight_of(line: OutputLine) -> int:
    """Characters that stand for what the line costs a browser."""
    return 100 + sum(40 + len(span.text) for span in line.spans)


class LastLines:
    """The last lines of all that are added."""

    def __init__(self, bounds: DisplayBounds) -> None:
        self._bounds = bounds
        self._lines: deque[OutputLine] = deque()
        self._weight = 0
        # number of those that are not kept
        self.left_out = 0

    @property
    def lines(self) -> tuple[OutputLine, ...]:
        return tuple(self._lines)

    def add(self, lines: Iterable[OutputLine]) -> None:
        """Add lines; the last one is kept in any case."""
        for line in lines:
            self._lines.append(line)
            self._weight += weight_of(line)
            while len(self._lines) > 1 and (
                len(self._lines) > self._bounds.lines or self._weight > self._bounds.weight
            ):
                self._weight -= weight_of(self._lines.popleft())
                self.left_out += 1


class FirstLines:
    """The first lines of all that are added."""

    def __init__(self, bounds: DisplayBounds) -> None:
        self._bounds = bounds
        self._lines: list[OutputLine] = []
        self._weight = 0
        # whether no more are kept
        self.is_full = False

    @property
    def lines(self) -> tuple[OutputLine, ...]:
        return tuple(self._lines)

    def add(self, lines: Iterable[OutputLine]) -> None:
        """Add lines; the first one is kept in any case."""
        for line in lines:
            self._weight += weight_of(line)
            has_room = len(self._lines) < self._bounds.lines and self._weight <= self._bounds.weight
            self.is_full = self.is_full or not (has_room or not self._lines)
            if self.is_full:
                return
            self._lines.append(line)
