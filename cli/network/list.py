"""`gnt-network list`: networks as a table.

Source: cli.md 1.3 and 1.4.
"""

from collections.abc import Sequence
from typing import Final, Unpack

import click

from cli.choosing.namecompletion import complete_network
from cli.choosing.objectlist import ListOptions, list_options, tell_objects
from cli.commands import Command
from common.query.kinds import QueryKind

_USUAL: Final = ("name", "network", "gateway", "mac_prefix", "group_list", "tags")


@click.command(
    "list",
    cls=Command,
    examples=(
        "gnt-network list",
        "gnt-network list -o name,free_count,reserved_count",
        "gnt-network list -o +inst_list 'free_count < 10'",
        "gnt-network list --output json -o name,gateway",
    ),
)
@list_options
@click.argument("words", metavar="[NETWORK...|FILTER]", nargs=-1, shell_complete=complete_network)
def list_networks(words: Sequence[str], **options: Unpack[ListOptions]) -> int:
    """List all networks, the named ones, or those for which a filter holds: 'free_count < 10'."""
    return tell_objects(QueryKind.NETWORK, _USUAL, words, options, "gnt-network", {"group_list": _groups})


def _groups(value: object) -> str:
    """Groups with the parameters of the connection, as Ganeti's command shows them."""
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{name} ({', '.join(map(str, params))})" for name, *params in value)
