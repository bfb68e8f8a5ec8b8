"""`gnt-cluster getmaster`: the name of the master, as this node knows it."""

import click

from cli.commands import Command
from cli.context import paths, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.errors import NotFound
from common.nodes.ssconffiles import master_name


@click.command("getmaster", cls=Command, examples=("gnt-cluster getmaster", "ssh $(gnt-cluster getmaster)"))
def getmaster() -> int:
    """Tell the name of the master, by the files of this node; no daemon is asked."""
    name = master_name(paths())
    if not name:
        raise NotFound("this node has not heard of a master")
    if wants_json():
        say_json(name)
    else:
        say(name)
    return DONE
