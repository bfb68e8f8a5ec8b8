"""`gnt-node list`: nodes as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Unpack

import click

from cli.choosing.lists import ListOptions, list_options, object_filter, tell_fields, tell_objects
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.options import complete_node, table_options
from cli.screen import say, say_json
from cli.tables import Layout
from common.objects.kinds import QueryKind
from common.printable import json_text, printable
from protocol.luxi.queries import Query

_USUAL: Final = ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt")


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
@list_options
@click.argument("words", metavar="[NODE...|FILTER]", nargs=-1, shell_complete=complete_node)
def list_nodes(words: Sequence[str], **options: Unpack[ListOptions]) -> int:
    """List all nodes, the named ones, or those for which a filter holds: 'role == "C" and mfree > 4096'."""
    return tell_objects(QueryKind.NODE, _USUAL, words, options, "gnt-node")


# `gnt-node list-fields`: the columns of `gnt-node list`.


@click.command("list-fields", cls=Command, examples=("gnt-node list-fields", "gnt-node list-fields role mfree"))
@table_options
@click.argument("names", metavar="[FIELD]...", nargs=-1)
def list_fields(names: Sequence[str], no_headers: bool, separator: str | None) -> int:
    """Tell the fields that gnt-node list can show and filters can compare; all, or the named ones."""
    return tell_fields(QueryKind.NODE, names, Layout(not no_headers, separator))


# `gnt-node info`: everything about nodes.
#
# Source: cli.md 1.


_FIELDS: Final = (
    *("name", "uuid", "role", "group", "pip", "sip", "master_candidate", "drained", "offline", "powered"),
    *("master_capable", "vm_capable", "pinst_list", "sinst_list", "ndparams", "custom_ndparams"),
)
_LINES: Final = {
    "primary ip": "pip",
    "secondary ip": "sip",
    "master candidate": "master_candidate",
    "drained": "drained",
    "offline": "offline",
    "powered": "powered",
    "master_capable": "master_capable",
    "vm_capable": "vm_capable",
}
# known of some nodes only
_OPTIONAL: Final = ("powered",)


@click.command("info", cls=Command, examples=("gnt-node info", "gnt-node info --output json web7 | jq .[0].role"))
@click.argument("names", metavar="[NODE]...", nargs=-1, shell_complete=complete_node)
def info(names: Sequence[str]) -> int:
    """Tell everything that the configuration has about these nodes, or about all."""
    found = ask_luxid(Query(QueryKind.NODE, _FIELDS, object_filter(names, is_filtering=False)))
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in found.values()]
    if wants_json():
        say_json(rows)
    else:
        for row in rows:
            for line in _node_lines(row):
                say(printable(line))
    return DONE


def _node_lines(row: Mapping[str, object]) -> Iterator[str]:
    yield f"- Node name: {row['name']}"
    for title, field in _LINES.items():
        if row[field] is not None or field not in _OPTIONAL:
            yield f"  {title}: {row[field]}"
    for title, field in (("primary", "pinst_list"), ("secondary", "sinst_list")):
        if row["vm_capable"]:
            yield f"  {title} for instances: "
            yield from (f"    - {name}" for name in _names(row[field]))
    yield "  node parameters: "
    custom, every = _object(row["custom_ndparams"]), _object(row["ndparams"])
    for name in sorted(every):
        yield f"    {name}: {_text(custom[name])}" if name in custom else f"    {name}: default ({_text(every[name])})"


def _names(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else json_text(value)
