"""The table of `list`: objects of one kind, with chosen fields.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict

import click

from cli.choosing.objectchoice import object_filter
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, UNKNOWN_FIELD
from cli.options import F, table_options, with_options
from cli.paging import show_lines
from cli.screen import say_json, warn
from cli.tables import Column, Layout, render
from common.query.kinds import QueryKind
from common.words.cells import Units, cell_text
from protocol.luxi.queries import Cell, Query

_NUMBERS: Final = ("number", "float", "unit")
# function for a value that has a text of its own in a list
Shown = Callable[[object], str]


class ListOptions(TypedDict):
    """What `list_options` pass to a verb."""

    chosen: str | None
    no_headers: bool
    separator: str | None
    units: str | None
    verbose: bool
    is_filtering: bool


def list_options(function: F) -> F:
    """`-o`, `--no-headers`, `--separator`, `--units`, `-v` and `-F`."""
    units = [each.value for each in Units]
    function = with_options(
        function,
        click.option("--units", type=click.Choice(units), help="Sizes in MiB, GiB, TiB or as fits."),
        click.option("-v", "--verbose", is_flag=True, help="Say in words why a cell has no value."),
        click.option("-F", "--filter", "is_filtering", is_flag=True, help="Take the argument as a filter."),
    )
    text = "Columns, with commas; a leading + adds to the usual."
    return click.option("-o", "--fields", "chosen", metavar="FIELDS", help=text)(table_options(function))


def tell_objects(
    kind: QueryKind,
    usual: Sequence[str],
    words: Sequence[str],
    options: ListOptions,
    program: str,
    shown: Mapping[str, Shown] | None = None,
) -> int:
    """Print the objects that the words name, or all; return the exit code.

    Args:
        usual: fields when none are chosen.
        shown: field -> how its values are shown.
    """
    fields = _fields(options["chosen"], usual, program)
    found = ask_luxid(Query(kind, fields, object_filter(words, is_filtering=options["is_filtering"])))
    if wants_json():
        say_json([dict(zip(fields, row, strict=True)) for row in found.values()])
    else:
        columns = [Column(field.title, field.kind in _NUMBERS) for field in found.fields]
        kinds = [(field.kind, (shown or {}).get(field.name)) for field in found.fields]
        cells = [
            [_text(kind, own, cell, options) for (kind, own), cell in zip(kinds, row, strict=True)]
            for row in found.data
        ]
        show_lines(render(columns, cells, Layout(not options["no_headers"], options["separator"])))
    unknown = [field.name for field in found.fields if field.kind == "unknown"]
    for name in unknown:
        warn(f"unknown field '{name}'; '{program} list-fields' tells which there are")
    return UNKNOWN_FIELD if unknown else DONE


def _fields(chosen: str | None, usual: Sequence[str], program: str) -> tuple[str, ...]:
    if chosen is None:
        return tuple(usual)
    names = tuple(name for name in chosen.removeprefix("+").split(",") if name)
    if not names:
        raise click.UsageError(f"-o '{chosen}' names no field; '{program} list-fields' tells which there are")
    return (*usual, *names) if chosen.startswith("+") else names


def _text(kind: str, own: Shown | None, cell: Cell, options: ListOptions) -> str:
    state, value = cell
    if own is not None and not state and value is not None:
        return own(value)
    units = Units(options["units"]) if options["units"] else None
    separated = Units.PEOPLE if options["separator"] is None else Units.MEBIBYTES
    return cell_text(kind, state, value, units or separated, in_words=options["verbose"])
