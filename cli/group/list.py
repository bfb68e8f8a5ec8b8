"""`gnt-group list`: node groups as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Sequence
from typing import Final, Unpack

import click

from cli.choosing.namecompletion import complete_group
from cli.choosing.objectlist import ListOptions, list_options, tell_objects
from cli.commands import Command
from common.query.kinds import QueryKind

_USUAL: Final = ("name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams")


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-group list",
        "gnt-group list -o name,node_list,pinst_list",
        "gnt-group list -o +tags 'alloc_policy == \"last_resort\"'",
        "gnt-group list --output json -o name,node_cnt",
    ),
)
@list_options
@click.argument("words", metavar="[GROUP...|FILTER]", nargs=-1, shell_complete=complete_group)
def list_groups(words: Sequence[str], **options: Unpack[ListOptions]) -> int:
    """List all node groups, the named ones, or those for which a filter holds: 'node_cnt > 3'."""
    return tell_objects(QueryKind.GROUP, _USUAL, words, options, "gnt-group", {"ndparams": _parameters})


def _parameters(value: object) -> str:
    """Parameters of nodes, as Ganeti's command shows them."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name}={part}" for name, part in value.items())
