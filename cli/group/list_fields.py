"""`gnt-group list-fields`: the columns of `gnt-group list`."""

from collections.abc import Sequence

import click

from cli.choosing.listfields import tell_fields
from cli.commands import Command
from cli.options import table_options
from cli.tables import Layout
from common.query.kinds import QueryKind


@click.command("list-fields", cls=Command, examples=("gnt-group list-fields", "gnt-group list-fields node_list tags"))
@table_options
@click.argument("names", metavar="[FIELD]...", nargs=-1)
def list_fields(names: Sequence[str], no_headers: bool, separator: str | None) -> int:
    """Tell the fields that gnt-group list can show and filters can compare; all, or the named ones."""
    return tell_fields(QueryKind.GROUP, names, Layout(not no_headers, separator))
