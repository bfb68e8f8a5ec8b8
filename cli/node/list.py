"""`gnt-node list`: nodes as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Sequence
from typing import Final

import click

from cli.choosing.objectchoice import object_filter
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, UNKNOWN_FIELD
from cli.node.words import complete_node
from cli.options import table_options
from cli.screen import say, say_json, warn
from cli.tables import Column, Layout, render
from common.query.kinds import QueryKind
from common.words.cells import Units, cell_text
from protocol.luxi.queries import Query

_USUAL: Final = ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt")
_NUMBERS: Final = ("number", "float", "unit")


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-node list",
        "gnt-node list -o name,role,pip 'web*'",
        "gnt-node list -o +ctotal 'offline or drained'",
        "gnt-node list --output json -o name,master_candidate",
    ),
)
@click.option("-o", "--fields", "chosen", metavar="FIELDS", help="Columns, with commas; a leading + adds to the usual.")
@table_options
@click.option("--units", type=click.Choice([each.value for each in Units]), help="Sizes in MiB, GiB, TiB or as fits.")
@click.option("-v", "--verbose", is_flag=True, help="Say in words why a cell has no value.")
@click.option("-F", "--filter", "is_filtering", is_flag=True, help="Take the argument as a filter.")
@click.argument("words", metavar="[NODE...|FILTER]", nargs=-1, shell_complete=complete_node)
def list_nodes(
    words: Sequence[str],
    chosen: str | None,
    no_headers: bool,
    separator: str | None,
    units: str | None,
    verbose: bool,
    is_filtering: bool,
) -> int:
    """List all nodes, the named ones, or those for which a filter holds: 'role == "C" and mfree > 4096'."""
    fields = _fields(chosen)
    found = ask_luxid(Query(QueryKind.NODE, fields, object_filter(words, is_filtering=is_filtering)))
    if wants_json():
        say_json([dict(zip(fields, row, strict=True)) for row in found.values()])
    else:
        shown = Units(units) if units else Units.PEOPLE if separator is None else Units.MEBIBYTES
        kinds = [field.kind for field in found.fields]
        columns = [Column(field.title, field.kind in _NUMBERS) for field in found.fields]
        cells = [
            [cell_text(kind, *cell, shown, in_words=verbose) for kind, cell in zip(kinds, row, strict=True)]
            for row in found.data
        ]
        for line in render(columns, cells, Layout(not no_headers, separator)):
            say(line)
    unknown = [field.name for field in found.fields if field.kind == "unknown"]
    for name in unknown:
        warn(f"unknown field '{name}'; 'gnt-node list-fields' tells which there are")
    return UNKNOWN_FIELD if unknown else DONE


def _fields(chosen: str | None) -> tuple[str, ...]:
    if chosen is None:
        return _USUAL
    names = tuple(name for name in chosen.removeprefix("+").split(",") if name)
    if not names:
        raise click.UsageError(f"-o '{chosen}' names no field; 'gnt-node list-fields' tells which there are")
    return (*_USUAL, *names) if chosen.startswith("+") else names
