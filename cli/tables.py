"""Tables of text: a header, aligned columns, no frames, `-` for nothing.

Source: cli.md 1.3.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import attrs
import click

from common.printable import printable
from common.words.columns import columns_of, cut, fitting
from common.words.fields import Row, job_title

NOTHING: Final = "-"
# the text for an empty cell, and for a field that does not exist, in words
UNAVAILABLE: Final = "(unavail)"
UNKNOWN: Final = "(unknown)"
_GAP: Final = "  "

Style = Callable[[str], str]


@attrs.frozen
class Column:
    title: str
    is_number: bool = False
    # function that colours the text of a cell; called only if colours are wanted
    style: Style | None = None
    # whether it is never cut, as numbers are not
    is_whole: bool = False


@attrs.frozen
class Layout:
    """How a table is printed."""

    has_header: bool = True
    # text between cells that are not aligned; None: aligned columns
    separator: str | None = None
    has_color: bool = False
    # text of an empty cell
    nothing: str = NOTHING
    # columns of the terminal, to which texts are cut; None: nothing is cut
    width: int | None = None

    @property
    def is_for_people(self) -> bool:
        """False: a program reads the table, and wants values as they are stored."""
        return self.has_header and self.separator is None


def render(columns: Sequence[Column], rows: Iterable[Sequence[str]], layout: Layout) -> Iterator[str]:
    """The lines of a table; empty cells show as `layout.nothing`, control characters are escaped.

    Numbers are aligned to the right; the last column is not padded.
    """
    cells = [[printable(cell) or layout.nothing for cell in row] for row in rows]
    head = [column.title for column in columns]
    if layout.separator is not None:
        yield from (layout.separator.join(row) for row in ([head] if layout.has_header else []) + cells)
        return
    all_rows = [head, *cells] if layout.has_header else cells
    widths = [max((columns_of(row[place]) for row in all_rows), default=0) for place in range(len(columns))]
    if layout.width is not None:
        least = [None if column.is_number or column.is_whole else columns_of(column.title) for column in columns]
        widths = fitting(widths, least, layout.width - len(_GAP) * (len(columns) - 1))
        cells = [[cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    if layout.has_header:
        yield _line(columns, head, widths, has_color=False)
    for row in cells:
        yield _line(columns, row, widths, has_color=layout.has_color)


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], *, has_color: bool) -> str:
    parts = []
    for place, (column, cell, width) in enumerate(zip(columns, row, widths, strict=True)):
        is_last = place == len(columns) - 1
        padding = "" if is_last and not column.is_number else " " * (width - columns_of(cell))
        shown = column.style(cell) if has_color and column.style else cell
        parts.append(padding + shown if column.is_number else shown + padding)
    return _GAP.join(parts).rstrip()


_COLORS: Final = {
    "running": "cyan",
    "success": "green",
    "error": "red",
    "canceled": "yellow",
    "canceling": "yellow",
    "ending": "yellow",
}


def status_style(text: str) -> str:
    """A job's state in its colour."""
    return click.style(text, fg=_COLORS[text]) if text in _COLORS else text


# fields of `job_table`
JOB_FIELDS: Final = ("id", "status", "name", "summary")


def job_table(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a table of jobs, each with `JOB_FIELDS`."""
    cells = [[str(row["id"]), row["status"] or "", job_title(row)] for row in rows]
    return render((Column("ID", is_number=True), Column("STATUS"), Column("SUMMARY")), cells, Layout())
