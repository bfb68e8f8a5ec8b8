"""`gantry cluster switchover`: move the mastership to another healthy node; no acknowledged work is lost."""

import click

from cli.choosing.namecompletion import complete_candidate
from cli.durations import DURATION
from cli.exitcodes import REFUSED_SWITCHOVER
from cli.gantry.cluster.clustercommand import ClusterCommand
from cli.gantry.cluster.moving import Move
from protocol.keeperd.calls import Switchover


@click.command(
    "switchover",
    cls=ClusterCommand,
    examples=(
        "gantry cluster switchover",
        "gantry cluster switchover node2 --limit 10m",
        "gantry cluster switchover --kill     # jobs on the master are killed, not waited for",
    ),
)
@click.option("--kill", is_flag=True, help="Kill the jobs that run on the master itself; else they are waited for.")
@click.option("--limit", type=DURATION, default=0.0, help="Give up after this time, as in 10m; 0 (default): never.")
@click.argument("node", required=False, default="", shell_complete=complete_candidate)
def switchover(node: str, kill: bool, limit: float) -> int:
    """Move the mastership to NODE, or to the best node, and wait until it serves.

    Only to a node that is healthy and has all copies; one whose copies are being compared, as after another
    move, is waited for up to a minute. New jobs wait meanwhile, commands on nodes go on, and no job fails.
    Ctrl-C ends the waiting only.
    """
    return Move(Switchover(node, kill, limit), "switchover", REFUSED_SWITCHOVER).carry_out()
