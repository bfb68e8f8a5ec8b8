"""`gnt-cluster getmaster`: the name of the master, as this node knows it."""

import click

from cli.clusterstate.masterships import known_mastership
from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.errors import NotFound
from common.nodes.ssconffiles import master_name


@click.command("getmaster", cls=Command, examples=("gnt-cluster getmaster", "ssh $(gnt-cluster getmaster)"))
def getmaster() -> int:
    """Tell the name of the master, by the files of this node; no daemon is asked.

    With a lease the keeperd of this node is asked, if there is one: only it knows who is the master now.
    """
    settings = installation()
    view = known_mastership() if settings.cluster.has_lease else None
    if view is not None and not view.master:
        raise NotFound(f"nobody is the master now, as keeperd of this node knows it, which is in state '{view.state}'")
    name = master_name(settings.paths) if view is None else view.master
    if not name:
        raise NotFound("this node has not heard of a master")
    if wants_json():
        say_json(name)
    else:
        say(name)
    return DONE
