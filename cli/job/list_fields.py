"""`gnt-job list-fields`: the columns of `gnt-job list`."""

from collections.abc import Sequence
from typing import Final

import click

from cli.choosing.listfields import OwnField, tell_fields
from cli.commands import Command
from cli.options import table_options
from cli.tables import Layout
from common.query.kinds import QueryKind

OWN_FIELDS: Final = (
    OwnField("age", "how long ago the job was submitted (no filter)"),
    OwnField("cpu", "CPU time that its commands used (no filter)"),
    OwnField("memory", "highest memory of its commands (no filter)"),
    OwnField("read", "what its commands read from disks (no filter)"),
    OwnField("runtime", "how long it ran, or has been running (no filter)"),
    OwnField("time", "how long it ran or runs; before that, how long it has been waiting (no filter)"),
    OwnField("written", "what its commands wrote to disks (no filter)"),
)


@click.command("list-fields", cls=Command, examples=("gnt-job list-fields", "gnt-job list-fields status summary"))
@table_options
@click.argument("names", metavar="[FIELD]...", nargs=-1)
def list_fields(names: Sequence[str], no_headers: bool, separator: str | None) -> int:
    """Tell the fields of gnt-job list, all or the named ones; filters take those not marked "no filter"."""
    return tell_fields(QueryKind.JOB, names, Layout(not no_headers, separator), OWN_FIELDS)
