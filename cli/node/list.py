"""`gnt-node list`: nodes as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from cli.choosing.lists import (
    ListOptions,
    as_list,
    as_object,
    fields_command,
    list_options,
    tell_objects,
    tell_whole,
)
from cli.commands import Command
from cli.options import complete_node
from common.objects.kinds import QueryKind
from common.printable import json_text

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
def list_nodes(words: Sequence[str], options: ListOptions) -> int:
    """List all nodes, the named ones, or those for which a filter holds: 'role == "C" and mfree > 4096'."""
    return tell_objects(QueryKind.NODE, _USUAL, words, options, "gnt-node")


# `gnt-node list-fields`: the columns of `gnt-node list`.


list_fields = fields_command(QueryKind.NODE, "gnt-node", "role mfree")


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
    return tell_whole(QueryKind.NODE, _FIELDS, names, _node_lines)


def _node_lines(row: Mapping[str, object]) -> Iterator[str]:
    yield f"- Node name: {row['name']}"
    for title, field in _LINES.items():
        if row[field] is not None or field not in _OPTIONAL:
            yield f"  {title}: {row[field]}"
    for title, field in (("primary", "pinst_list"), ("secondary", "sinst_list")):
        if row["vm_capable"]:
            yield f"  {title} for instances: "
            yield from (f"    - {name}" for name in as_list(row[field]))
    yield "  node parameters: "
    custom, every = as_object(row["custom_ndparams"]), as_object(row["ndparams"])
    for name in sorted(every):
        yield f"    {name}: {_text(custom[name])}" if name in custom else f"    {name}: default ({_text(every[name])})"


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else json_text(value)
