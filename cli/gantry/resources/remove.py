"""`gantry resource remove`: remove resources."""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.resources.naming import RESOURCE, node_option, resource_key
from cli.screen import say, say_json
from protocol.luxi.resources import RemoveResource


@click.command("remove", cls=Command, examples=("gantry resource remove licences",))
@click.argument("names", metavar="NAME...", type=RESOURCE, nargs=-1, required=True)
@node_option
def remove(names: Sequence[str], node: str | None) -> int:
    """Remove resources. Jobs keep what they have; those that want it wait until it is set again."""
    keys = [resource_key(name, node) for name in names]
    with open_luxid() as client:
        for key in keys:
            client.call(RemoveResource(key.node, key.resource))
            if not wants_json():
                say(f"there is no resource '{key.key}' any more")
    if wants_json():
        say_json([key.key for key in keys])
    return DONE
