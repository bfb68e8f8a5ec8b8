"""`gantry resource set`: set the total of a resource."""

import click

from cli.choosing.commandargs import SIZE
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.resources.naming import RESOURCE, node_option, resource_key
from cli.screen import remark, say, say_json
from common.resources import Resource, Unit
from common.words.unitcounts import units_text
from protocol.luxi.resources import ReadResourceUse, SetResource


@click.command(
    "set",
    cls=Command,
    examples=("gantry resource set licences 5", "gantry resource set --node web1 memory 64G"),
)
@click.argument("name", metavar="NAME", type=RESOURCE)
@click.argument("total", metavar="TOTAL")
@node_option
@click.pass_context
def set_resource(ctx: click.Context, name: str, total: str, node: str | None) -> int:
    """Set how many units of a resource there are; a new name makes a new resource.

    A TOTAL with K, M, G or T is in bytes. Fewer than are in use may be set: jobs keep what they have, and none begins
    to use it before enough is given back.
    """
    key = resource_key(name, node)
    count = SIZE.convert(total, None, ctx)
    unit = Unit.COUNT if total.isdigit() else Unit.BYTES
    resource = Resource(key.node, key.resource, count, unit)
    with open_luxid() as client:
        client.call(SetResource(resource))
        used = next((each.used for each in client.call(ReadResourceUse()) if each.resource.key == resource.key), 0)
    if wants_json():
        say_json({"name": resource.key, "unit": unit.value, "total": count, "used": used})
        return DONE
    say(f"there are {units_text(count, unit)} of '{resource.key}' now")
    if used > count:
        remark(f"{units_text(used, unit)} are in use; no job takes any before enough is given back")
    return DONE
