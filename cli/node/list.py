"""`gnt-node list`: nodes as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Sequence
from typing import Final, Unpack

import click

from cli.choosing.namecompletion import complete_node
from cli.choosing.objectlist import ListOptions, list_options, tell_objects
from cli.commands import Command
from common.query.kinds import QueryKind

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
