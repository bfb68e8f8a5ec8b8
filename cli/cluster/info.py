"""`gnt-cluster info`: the parameters of the cluster, in the form of Ganeti's command.

Source: luxid.md 2.8; Ganeti's `gnt-cluster info` (recorded).
"""

import click

from cli.cluster.infotext import info_lines
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from protocol.luxi.cluster import QueryClusterInfo


@click.command("info", cls=Command, examples=("gnt-cluster info", "gnt-cluster info --output json | jq .master"))
def info() -> int:
    """Tell the parameters of the cluster."""
    facts = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json(facts)
        return DONE
    for line in info_lines(facts, installation().luxid.max_queued_jobs):
        say(line)
    return DONE
