"""`gantry resource list`: the resources, and what is in use."""

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.gantry.resources.shown import use_json
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import remark, say_json
from cli.tables import Column, Layout, render
from common.words.unitcounts import units_text
from protocol.luxi.resources import ReadResourceUse, ResourceUse

_COLUMNS = (
    Column("NAME"),
    Column("TOTAL", is_number=True),
    Column("USED", is_number=True),
    Column("FREE", is_number=True),
    Column("JOBS", is_number=True),
    Column("WAITING", is_number=True),
)


@click.command("list", cls=Command, examples=("gantry resource list", "gantry resource list --output json"))
@table_options
def list_resources(no_headers: bool, separator: str | None) -> int:
    """List the resources: their units, those in use, the jobs that use them, and those that wait for them."""
    with open_luxid() as client:
        found = client.call(ReadResourceUse())
    if wants_json():
        say_json([use_json(each) for each in found])
        return DONE
    if not found:
        remark("there are no resources; set one with 'gantry resource set licences 5'")
        return DONE
    layout = Layout(not no_headers, separator, has_color=uses_color())
    show_lines(render(_COLUMNS, map(_cells, found), layout))
    return DONE


def _cells(use: ResourceUse) -> tuple[str, ...]:
    total, unit = use.resource.total, use.resource.unit
    counts = (units_text(each, unit) for each in (total, use.used, total - use.used))
    return use.resource.key, *counts, str(len(use.users)), str(use.waiting)
