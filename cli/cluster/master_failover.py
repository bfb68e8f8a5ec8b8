"""`gnt-cluster master-failover`: make this node the master.

Source: masterfailover.md 3.
"""

import attrs
import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED, NOT_CONFIRMED
from cli.screen import confirm, remark, say, say_json, warn
from common.errors import Conflict
from common.settings import Settings

_QUESTION = (
    "Without a vote nobody checks that the old master is dead; two masters at a time destroy the configuration. Go on?"
)


@click.command(
    "master-failover",
    cls=Command,
    examples=("gnt-cluster master-failover", "gnt-cluster master-failover --no-voting --yes-do-it"),
)
@click.option("--no-voting", is_flag=True, help="Do not ask whether most nodes agree on who was the master.")
@click.option("--yes-do-it", is_flag=True, help="Ask nothing.")
@click.option("--ignore-offline-nodes", is_flag=True, help="Do not count nodes that are marked offline as voters.")
@click.option("--accept-loss", is_flag=True, help="Go on although another node has newer copies than this one.")
def master_failover(no_voting: bool, yes_do_it: bool, ignore_offline_nodes: bool, accept_loss: bool) -> int:
    """Make this node the master; run it on the master candidate that is to be.

    The old master is stopped if it can be reached. Jobs that were running are ended as failed;
    those that are queued are kept and run. If this was interrupted, run it again.

    A cluster with a lease refuses it: there 'gantry cluster' moves the mastership.
    """
    settings = installation()
    _refuse_lease(settings)
    # imported late: it loads TLS
    from cli.cluster.moving.steps import Move, Wishes

    if no_voting and not yes_do_it and not confirm(_QUESTION):
        remark("nothing was done; to answer yes in a script, add --yes-do-it")
        return NOT_CONFIRMED
    tell = remark if wants_json() else say
    wishes = Wishes(voting=not no_voting, with_offline=not ignore_offline_nodes, accept_loss=accept_loss)
    moved = Move(settings, wishes, tell).carry_out()
    if wants_json():
        say_json(attrs.asdict(moved))
    else:
        say(f"'{moved.master}' is the master now")
    for text in moved.warnings:
        warn(text)
    return DONE if moved.is_ready else FAILED


def _refuse_lease(settings: Settings) -> None:
    """Raises: Conflict: the mastership is held under a lease, so that this would be a second master."""
    if settings.cluster.has_lease:
        name = settings.cluster.own_name
        raise Conflict(
            "the master of this cluster holds a lease in etcd, and this command knows nothing of it; if the master is "
            f"healthy: gantry cluster switchover {name}; if it is not, and no node follows it by itself: "
            f"gantry cluster takeover --i-accept-loss {name}"
        )
