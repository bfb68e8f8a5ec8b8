"""`gantry resource info`: which jobs use a resource."""

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.resources.naming import RESOURCE, node_option, resource_key
from cli.gantry.resources.shown import use_json
from cli.screen import say, say_json
from common.errors import PrerequisiteError
from common.words.unitcounts import units_text
from protocol.luxi.resources import ReadResourceUse, ResourceUse


@click.command("info", cls=Command, examples=("gantry resource info licences", "gantry resource info web1:memory"))
@click.argument("name", metavar="NAME", type=RESOURCE)
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
