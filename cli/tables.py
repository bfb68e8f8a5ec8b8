"""Tables of text: a header, aligned columns, no frames, `-` for nothing.

Source: cli.md 1.3.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import click

from cli.context import NO_PAGER, uses_color
from cli.options import gathered
from cli.screen import remark, say_styled, warn
from common.printable import printable
from common.words.cells import columns_of, cut, fitting
from common.words.fields import JobRow, job_title

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


def _layout(no_headers: bool, separator: str | None) -> Layout:
    return Layout(not no_headers, separator, uses_color())


TABLE_OPTIONS: Final = (
    click.option("--no-headers", is_flag=True, help="Leave out the header."),
    click.option("--separator", metavar="TEXT", help="Put this between the columns, and do not align them."),
    click.option(
        "--no-pager",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.update({NO_PAGER: value}),
        help="Show a long table at once, also on a terminal.",
    ),
)
# a verb that shows a table gets its `layout`
table_options: Final = gathered("layout", _layout, *TABLE_OPTIONS)


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


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], layout: Layout | None = None) -> None:
    """Print a table at once; one without a layout has aligned columns, in colour on a terminal."""
    for line in render(columns, rows, layout or Layout(has_color=uses_color())):
        say_styled(line)


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


def job_table(rows: Iterable[JobRow]) -> Iterator[str]:
    """The lines of a table of jobs, each with `JOB_FIELDS`."""
    cells = [[str(row["id"]), row["status"] or "", job_title(row)] for row in rows]
    return render((Column("ID", is_number=True), Column("STATUS"), Column("SUMMARY")), cells, Layout())


# Long tables on a terminal: through a pager, as git does; without one a last line says how long they were.
#
# Into a pipe or a file everything goes at once. The pager is $GANTRY_PAGER, $PAGER, less or more, whichever is first;
# empty or `cat` is none. less gets -FRX by its variable, unless that is set: it ends by itself where all fits the
# screen.
#
# Source: cli.md 1.3.


if TYPE_CHECKING:
    import subprocess

PAGER_VARIABLE: Final = "GANTRY_PAGER"
_USUAL: Final = ("less", "more")
_OPTIONS_OF_LESS: Final = "FRX"
# of a shell: the program cannot be started, or is not there
_NOT_STARTED: Final = (126, 127)


def show_lines(lines: Iterable[str], fewer: str = "") -> None:
    """Print lines of results, in which foreign control sequences are visible; through a pager if they are too many.

    Args: fewer: what the user can do to get fewer lines.
    Cancellation: Ctrl-C is the pager's while it runs.
    """
    every = list(lines)
    is_long = sys.stdout.isatty() and len(every) >= shutil.get_terminal_size().lines
    pager = _pager() if is_long else None
    if pager is not None and _shown_by(pager, every):
        return
    for line in every:
        say_styled(line)
    if is_long and pager is None and fewer and not _is_forbidden():
        remark(f"… {len(every):,} lines; {fewer}")


def _is_forbidden() -> bool:
    return bool(click.get_current_context().meta.get(NO_PAGER))


def _pager() -> str | None:
    """The command of the pager; None: there is to be none, or there is none."""
    if _is_forbidden() or os.environ.get("TERM") == "dumb":
        return None
    named = next((os.environ[name] for name in (PAGER_VARIABLE, "PAGER") if name in os.environ), None)
    if named is None:
        named = next((name for name in _USUAL if shutil.which(name)), "")
    return None if named.strip() in ("", "cat") else named


def _shown_by(pager: str, lines: Sequence[str]) -> bool:
    """Show the lines by this command; False: it cannot be started."""
    # imported late: only a long table on a terminal needs it
    import subprocess

    sys.stdout.flush()
    environment = {"LESS": _OPTIONS_OF_LESS, **os.environ}
    with subprocess.Popen(
        pager, shell=True, stdin=subprocess.PIPE, env=environment, text=True, errors="replace"
    ) as started:
        try:
            assert started.stdin is not None
            started.stdin.writelines(f"{line}\n" for line in lines)
            started.stdin.close()
        except (BrokenPipeError, KeyboardInterrupt):
            # the user has seen enough
            pass
        code = _end_of(started)
    if code in _NOT_STARTED:
        warn(f"the pager '{pager}' cannot be started; ${PAGER_VARIABLE} names another one, --no-pager does without")
    return code not in _NOT_STARTED


def _end_of(started: "subprocess.Popen[str]") -> int:
    while True:
        try:
            return started.wait()
        except KeyboardInterrupt:
            # the terminal sends it to the pager, too, which knows what to do
            continue
