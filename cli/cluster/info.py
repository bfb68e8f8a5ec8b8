"""`gnt-cluster info`: what most want to know of the cluster, or all parameters in the form of Ganeti's command.

Where the installation takes the place of Ganeti's daemons, scripts expect that form, and get it.

Source: luxid.md 2.8; Ganeti's `gnt-cluster info` (recorded).
"""

import click

from cli.cluster.infotext import info_lines, short_lines
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.settings import GanetiSettings
from protocol.luxi.cluster import QueryClusterInfo


@click.command(
    "info",
    cls=Command,
    examples=("gnt-cluster info", "gnt-cluster info --full", "gnt-cluster info --output json | jq .master"),
)
@click.option("--full", is_flag=True, help="Tell all parameters, as Ganeti's command does.")
def info(full: bool) -> int:
    """Tell what the cluster is and which node is its master; with --full, all its parameters.

    It tells all, too, in an installation that replaces Ganeti's daemons: one whose settings have a table "[ganeti]".
    """
    facts = ask_luxid(QueryClusterInfo())
    if wants_json():
        say_json(facts)
        return DONE
    settings = installation()
    # a table of settings of its own for installations among a real Ganeti's programs or on its files
    is_ganetis = settings.ganeti != GanetiSettings()
    lines = info_lines if full or is_ganetis else short_lines
    for line in lines(facts, settings.luxid.max_queued_jobs):
        say(line)
    return DONE
