"""`gantry resource`: counted resources of the cluster and of nodes; and the jobs that use them."""

from collections.abc import Sequence
from typing import Final

import click

from cli.commands import Command, CommandGroup, CommandVerb
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.options import complete_node, complete_resource
from cli.remoteoptions import remote_options
from cli.screen import remark, say, say_json
from cli.submitting.arguments import SIZE
from cli.tables import Column, Layout, render, show_lines, table_options
from common.errors import PrerequisiteError
from common.queue.terms import Use, read_use
from common.resources import Resource, Unit, units_text
from protocol.luxi.queue import ReadResourceUse, RemoveResource, ResourceUse, SetResource

VERBS: Final = {
    "set": CommandVerb("cli.gantry.resource:set_resource", "Set how many units there are."),
    "list": CommandVerb("cli.gantry.resource:list_resources", "List the resources, and what is in use."),
    "info": CommandVerb("cli.gantry.resource:info", "Show which jobs use a resource."),
    "remove": CommandVerb("cli.gantry.resource:remove", "Remove resources."),
}

resource = CommandGroup(
    "resource",
    VERBS,
    help="Counted resources, such as licences: a job takes all that it uses when it starts, and gives it back at its "
    "end (gnt-job run --use).",
    examples=(
        "gantry resource set licences 5",
        "gantry resource set --node web1 memory 64G",
        "gnt-job run --use licences=2 --use web1:memory=4G -- make",
        "gantry resource list",
    ),
    shared=remote_options,
)


# Names of resources as arguments: `licences`, `web1:memory`, or `memory` with `--node web1`.
#
# Source: DESIGN section 16.


node_option = click.option(
    "--node", metavar="NODE", shell_complete=complete_node, help="The resource is this node's; as NODE:NAME."
)


def resource_key(name: str, node: str | None) -> Use:
    """The resource that is meant, as a use of one unit.

    Raises: InvalidRequest: the name names no resource. UsageError: two nodes are named.
    """
    found = read_use(name, 1)
    if node is None:
        return found
    if found.node not in ("", node):
        raise click.UsageError(f"'{name}' is a resource of node '{found.node}', and --node names '{node}'")
    return read_use(f"{node}:{found.resource}", 1)


# Resources as tables and JSON show them.
#
# Source: DESIGN section 16.


def use_json(use: ResourceUse) -> dict[str, object]:
    """Counts in single units, or in bytes."""
    resource = use.resource
    return {
        "name": resource.key,
        "node": resource.node or None,
        "unit": resource.unit.value,
        "total": resource.total,
        "used": use.used,
        "free": resource.total - use.used,
        "waiting": use.waiting,
        "users": [{"job": job_id, "count": count} for job_id, count in use.users],
    }


# `gantry resource list`: the resources, and what is in use.


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
def list_resources(layout: Layout) -> int:
    """List the resources: their units, those in use, the jobs that use them, and those that wait for them."""
    with open_luxid() as client:
        found = client.call(ReadResourceUse())
    if wants_json():
        say_json([use_json(each) for each in found])
        return DONE
    if not found:
        remark("there are no resources; set one with 'gantry resource set licences 5'")
        return DONE
    show_lines(render(_COLUMNS, map(_cells, found), layout))
    return DONE


def _cells(use: ResourceUse) -> tuple[str, ...]:
    total, unit = use.resource.total, use.resource.unit
    counts = (units_text(each, unit) for each in (total, use.used, total - use.used))
    return use.resource.key, *counts, str(len(use.users)), str(use.waiting)


# `gantry resource info`: which jobs use a resource.


@click.command("info", cls=Command, examples=("gantry resource info licences", "gantry resource info web1:memory"))
@click.argument("name", metavar="NAME", shell_complete=complete_resource)
@node_option
def info(name: str, node: str | None) -> int:
    """Show a resource, and the jobs that use it."""
    key = resource_key(name, node).key
    with open_luxid() as client:
        found = next((each for each in client.call(ReadResourceUse()) if each.resource.key == key), None)
    if found is None:
        text = f"there is no resource '{key}'; list them with 'gantry resource list'"
        raise PrerequisiteError(text, "unknown_entity")
    if wants_json():
        say_json(use_json(found))
    else:
        _say(found)
    return DONE


def _say(use: ResourceUse) -> None:
    resource = use.resource
    say(f"Name: {resource.key}")
    say(f"Total: {units_text(resource.total, resource.unit)}")
    say(f"In use: {units_text(use.used, resource.unit)}")
    say(f"Free: {units_text(resource.total - use.used, resource.unit)}")
    say(f"Jobs that wait for it: {use.waiting}")
    for job_id, count in use.users:
        say(f"  job {job_id}: {units_text(count, resource.unit)}")


# `gantry resource set`: set the total of a resource.


@click.command(
    "set",
    cls=Command,
    examples=("gantry resource set licences 5", "gantry resource set --node web1 memory 64G"),
)
@click.argument("name", metavar="NAME", shell_complete=complete_resource)
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


# `gantry resource remove`: remove resources.


@click.command("remove", cls=Command, examples=("gantry resource remove licences",))
@click.argument("names", metavar="NAME...", shell_complete=complete_resource, nargs=-1, required=True)
@node_option
def remove(names: Sequence[str], node: str | None) -> int:
    """Remove resources. Jobs keep what they have; those that want it wait until it is set again."""
    keys = [resource_key(name, node) for name in names]
    with open_luxid() as client:
        for key in keys:
            client.call(RemoveResource(key.node, key.resource))
            if not wants_json():
                say(f"resource '{key.key}' is removed")
    if wants_json():
        say_json([key.key for key in keys])
    return DONE
