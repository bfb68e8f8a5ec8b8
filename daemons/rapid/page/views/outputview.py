"""The lines of an output as elements: the only place that turns what a job printed into HTML.

A line is a row with a number, which is a link to it. Lines of a group are rows of an element that folds. The looks of a
text are classes, for which the style sheet has colours: what a job prints can choose among them, and do nothing else.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

import attrs
from markupsafe import Markup, escape

from common.words.times import iso, tenths_clock
from daemons.rapid.page.terminal import LineGroup, LinePosition, OutputLine, Style
from daemons.rapid.page.views.frame import Choice

# ids of elements
ROWS: Final = "rows"
# the time of day in `tenths_clock`
_CLOCK: Final = slice(11, None)
TAIL: Final = "tail"


@attrs.frozen
class OutputView:
    rows: Markup
    # the line that is being written
    tail: Markup
    # number of the first line that is shown
    first: int
    # of lines before it that are not shown
    is_short: bool
    # what is known of output that is not kept; "": all is
    lost: str
    # what is shown, in words
    told: str
    range: str
    is_followed: bool
    choices: tuple[Choice, ...]
    # what is looked for; "": nothing
    find: str
    # number of the only try whose output it is; "": all
    of_try: str
    download: str
    # the page from the first line on
    from_start: str
    # the page with the times of lines, or without
    times: Choice
    # what the times mean, in words; "": none are shown
    times_told: str


# first byte of a line -> seconds since the epoch; None: that is not known
Times = Mapping[int, float | None]


def rows_html(
    lines: Iterable[OutputLine],
    *,
    open_group: LineGroup | None = None,
    find: str = "",
    href: Callable[[int], str] | None = None,
    times: Times | None = None,
) -> Markup:
    """All rows of a part of an output.

    Args:
        open_group: the one that has not ended, which is not folded.
        find: text that is marked.
        href: where the number of a line leads; None: to its row.
        times: when the lines began to come; None: that is not shown.
    """
    rows = RowMaker(find, href, times)
    return Markup("").join(rows.block(group, block, is_open=group == open_group) for group, block in blocks(lines))


def tail_html(line: OutputLine | None, times: Times | None = None) -> Markup:
    """The element of the line that is being written."""
    return Markup('<div id="{}">{}</div>').format(TAIL, RowMaker(times=times).row(line) if line is not None else "")


def blocks(lines: Iterable[OutputLine]) -> Iterator[tuple[LineGroup | None, Sequence[OutputLine]]]:
    """The lines of each group, and those between groups."""
    return ((group, tuple(block)) for group, block in groupby(lines, lambda line: line.group))


def group_id(group: LineGroup) -> str:
    return f"G{group.number}"


class RowMaker:
    """Makes rows. Args: as of `rows_html`."""

    def __init__(self, find: str = "", href: Callable[[int], str] | None = None, times: Times | None = None) -> None:
        self._times = times
        self._pattern = re.compile(re.escape(find), re.IGNORECASE) if find else None
        self._href = href

    def block(self, group: LineGroup | None, lines: Sequence[OutputLine], *, is_open: bool) -> Markup:
        """Lines of one group, or of none."""
        if group is None:
            return self.rows(lines)
        is_whole = lines[0].is_heading
        rows = self.rows(lines[is_whole:])
        # whoever looks for something sees it
        is_open = is_open or not is_whole or "<mark>" in rows
        heading = (
            self._heading(lines[0]) if is_whole else Markup('<summary class="rest">{} …</summary>').format(group.name)
        )
        return Markup('<details class="fold" id="{}"{}>{}{}</details>').format(
            group_id(group), Markup(' open=""') if is_open else "", heading, rows
        )

    def rows(self, lines: Iterable[OutputLine]) -> Markup:
        return Markup("").join(map(self.row, lines))

    def row(self, line: OutputLine) -> Markup:
        if line.is_note:
            return Markup('<div class="l note"><span>{}\n</span></div>').format(line.text)
        return Markup('<div class="l{}" id="L{}">{}{}<span>{}\n</span></div>').format(
            " cut" if line.is_cut else "", line.number, self._number(line.number), self._time(line), self._text(line)
        )

    def _heading(self, line: OutputLine) -> Markup:
        # what opens and closes must have no link in it
        number = Markup('<i data-n="{}"></i>').format(line.number)
        return Markup('<summary class="l" id="L{}">{}{}<span>{}\n</span></summary>').format(
            line.number, number, self._time(line), self._text(line)
        )

    def _time(self, line: OutputLine) -> Markup:
        if self._times is None:
            return Markup()
        at = self._times.get(line.offset)
        if at is None:
            return Markup("<time>–</time>")
        shown = tenths_clock(at)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(iso(at), shown, shown[_CLOCK])

    def _number(self, number: int) -> Markup:
        if self._href is not None:
            return Markup('<a href="{0}" data-n="{1}" aria-label="line {1}"></a>').format(self._href(number), number)
        # who uses the keyboard alone, or listens, must not pass a thousand of them
        return Markup('<a href="#L{0}" data-n="{0}" tabindex="-1" aria-hidden="true"></a>').format(number)

    def _text(self, line: OutputLine) -> Markup:
        places = [match.span() for match in self._pattern.finditer(line.text)] if self._pattern else []
        pieces, at = [], 0
        for span in line.spans:
            text = _marked(span.text, at, places)
            name = _classes(span.style)
            pieces.append(Markup('<span class="{}">{}</span>').format(name, text) if name else text)
            at += len(span.text)
        return Markup("").join(pieces)


def _marked(text: str, at: int, places: Sequence[tuple[int, int]]) -> Markup:
    """A part of a line that begins at this character, with marks on what was found in the line."""
    if not places:
        return escape(text)
    pieces, done = [], 0
    for begin, end in places:
        begin, end = max(begin - at, done), min(end - at, len(text))
        if begin < end:
            pieces += [escape(text[done:begin]), Markup("<mark>{}</mark>").format(text[begin:end])]
            done = end
    return Markup("").join([*pieces, escape(text[done:])])


@lru_cache(maxsize=4096)
def _classes(style: Style) -> str:
    """Where colours are inverse, the one of the text is that of what is behind it, in which every text can be read."""
    fore, back = (style.back, style.fore) if style.inverse else (style.fore, style.back)
    is_swapped = style.inverse and fore is None and back is None
    names = [
        "" if fore is None else f"t-f{fore}",
        "" if back is None else f"t-b{back}",
        "t-inverse" if is_swapped else "",
        "t-bold" if style.bold else "",
        "t-faint" if style.faint else "",
        "t-italic" if style.italic else "",
        # one property has both
        "t-line-both" if style.underlined and style.struck else "",
        "t-line-under" if style.underlined and not style.struck else "",
        "t-line-through" if style.struck and not style.underlined else "",
    ]
    return " ".join(filter(None, names))


# What changes under an open page.


@attrs.frozen
class Appended:
    """Rows for an element."""

    target: str
    rows: Markup
    # whether nothing else remains in it
    is_all: bool = False


def appended_rows(
    lines: Sequence[OutputLine],
    before: LinePosition,
    open_group: LineGroup | None,
    *,
    is_all: bool,
    times: Times | None = None,
) -> Iterator[Appended]:
    """What comes under a page that ends at a place.

    Args:
        before: where it ends; its group has an element already.
        open_group: the one that has not ended now.
        is_all: whether lines between the page and these are left out: then nothing else remains on the page.
        times: as of `rows_html`.
    """
    if is_all:
        yield Appended(ROWS, rows_html(lines, open_group=open_group, times=times), is_all=True)
        return
    rows = RowMaker(times=times)
    for number, (group, block) in enumerate(blocks(lines)):
        if number == 0 and group is not None and group == before.group:
            yield Appended(group_id(group), rows.rows(block))
        else:
            yield Appended(ROWS, rows.block(group, block, is_open=group == open_group))
