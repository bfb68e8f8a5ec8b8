"""`gnt-network list-fields`: the columns of `gnt-network list`."""

from collections.abc import Sequence

import click

from cli.choosing.listfields import tell_fields
from cli.commands import Command
from cli.options import table_options
from cli.tables import Layout
from common.query.kinds import QueryKind


@click.command(
    "list-fields", cls=Command, examples=("gnt-network list-fields", "gnt-network list-fields map free_count")
)
@table_options
@click.argument("names", metavar="[FIELD]...", nargs=-1)
def list_fields(names: Sequence[str], no_headers: bool, separator: str | None) -> int:
    """Tell the fields that gnt-network list can show and filters can compare; all, or the named ones."""
    return tell_fields(QueryKind.NETWORK, names, Layout(not no_headers, separator))
