"""`gnt-cluster master-ping`: whether this node is the master, and serves."""

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say_json
from protocol.luxi.cluster import QueryConfigValues


@click.command("master-ping", cls=Command, examples=("gnt-cluster master-ping && echo this is the master",))
def master_ping() -> int:
    """Succeed if the daemons of the master reply here; the exit code is 3 if not, with the reason."""
    master = ask_luxid(QueryConfigValues(("master_node",)))[0]
    if wants_json():
        say_json(master)
    return DONE
