"""The verbs of `gnt-cluster` about the master."""

import attrs
import click

from cli.clusterstate.masterships import known_mastership
from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED, NOT_CONFIRMED
from cli.screen import confirm, remark, say, say_json, say_result, warn
from common.errors import Conflict, NotFound
from common.nodes.nodeplace import master_name
from common.settings import Settings
from protocol.luxi.queries import QueryConfigValues

# `gnt-cluster getmaster`: the name of the master, as this node knows it.


@click.command("getmaster", cls=Command, examples=("gnt-cluster getmaster", "ssh $(gnt-cluster getmaster)"))
def getmaster() -> int:
    """Tell the name of the master, by the files of this node; no daemon is asked.

    With a lease the keeperd of this node is asked, if there is one: only it knows who is the master now.
    """
    settings = installation()
    view = known_mastership() if settings.cluster.has_lease else None
    if view is not None and not view.master:
        raise NotFound(f"no node is the master now, as keeperd of this node knows it, which is in state '{view.state}'")
    name = master_name(settings.paths) if view is None else view.master
    if not name:
        raise NotFound("this node has not heard of a master")
    say_result(name, name)
    return DONE


# `gnt-cluster master-ping`: whether this node is the master, and serves.


@click.command("master-ping", cls=Command, examples=("gnt-cluster master-ping && echo this is the master",))
def master_ping() -> int:
    """Succeed if the daemons of the master reply here; the exit code is 3 if not, with the reason."""
    master = ask_luxid(QueryConfigValues(("master_node",)))[0]
    if wants_json():
        say_json(master)
    return DONE


# `gnt-cluster master-failover`: make this node the master.
#
# Source: masterfailover.md 3.


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
    from cli.cluster.moving import FailoverOptions, MasterFailover

    if no_voting and not yes_do_it and not confirm(_QUESTION):
        remark("nothing was done; to answer yes in a script, add --yes-do-it")
        return NOT_CONFIRMED
    tell = remark if wants_json() else say
    options = FailoverOptions(voting=not no_voting, with_offline=not ignore_offline_nodes, accept_loss=accept_loss)
    moved = MasterFailover(settings, options, tell).carry_out()
    say_result(attrs.asdict(moved), f"'{moved.master}' is the master now")
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
