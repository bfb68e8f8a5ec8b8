"""`gantry cluster takeover`: make a node the master although the old one, or copies, may be lost."""

import click

from cli.choosing.namecompletion import complete_candidate
from cli.exitcodes import REFUSED_TAKEOVER
from cli.gantry.cluster.clustercommand import ClusterCommand
from cli.gantry.cluster.moving import Move
from protocol.keeperd.calls import Takeover


@click.command("takeover", cls=ClusterCommand, examples=("gantry cluster takeover --i-accept-loss node2",))
@click.option(
    "--i-accept-loss",
    "accepts_loss",
    is_flag=True,
    help="Needed: what NODE lacks is lost, and jobs that run on the old master fail.",
)
@click.argument("node", shell_complete=complete_candidate)
def takeover(node: str, accepts_loss: bool) -> int:
    """Make NODE the master without the old one's help, and wait until it serves.

    For a cluster in maintenance whose master has died, or whose only nodes left are barred or were away too
    long. If the master is healthy, use switchover. Ctrl-C ends the waiting only.
    """
    if not accepts_loss:
        raise click.UsageError(
            f"a takeover may lose work; move a healthy mastership with 'gantry cluster switchover {node}', or, if that "
            f"is refused, say: gantry cluster takeover --i-accept-loss {node}"
        )
    return Move(Takeover(node), "takeover", REFUSED_TAKEOVER).carry_out()
