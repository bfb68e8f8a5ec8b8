"""`gantry cluster accept-restore`: go on with an etcd that is older than what the nodes remember.

Source: lease.md 4.
"""

from collections.abc import Iterator
from typing import Final

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.gantry.cluster.asking import ask
from cli.gantry.cluster.showing import show_lines
from cli.screen import confirm, remark, say, say_json
from common.errors import Conflict
from common.lease.records import Role
from protocol.keeperd.calls import AcceptRestoredEtcd, ClusterView, ShowCluster

# state of a keeperd, in its own words
_DOUBT: Final = "doubt"


@click.command("accept-restore", cls=Command, examples=("gantry cluster accept-restore",))
@click.option("--yes", is_flag=True, help="Ask nothing.")
def accept_restore(yes: bool) -> int:
    """Take etcd as it is, after it was restored from a snapshot or replaced.

    A node that remembers more than etcd does is in doubt: it starts and writes nothing. This command shows what
    may be lost, asks, and ends the doubt: the key of the old master is removed, and the epoch is raised.
    """
    view = ask(ShowCluster())
    _check_doubt(view)
    if not wants_json():
        show_lines(view)
        say("")
    for line in loss_words(view):
        remark(line)
    if not yes and not confirm("Go on with this etcd?"):
        remark("nothing was accepted; to answer yes in a script, add --yes")
        return NOT_CONFIRMED
    ask(AcceptRestoredEtcd())
    if wants_json():
        say_json({"accepted": True})
    else:
        say("accepted; a candidate becomes the master within seconds; see: gantry cluster")
    return DONE


def _check_doubt(view: ClusterView) -> None:
    """Raises: Conflict: the keeperd that was asked is not in doubt."""
    if view.state == _DOUBT:
        return
    if doubting := [member.name for member in view.members if member.role is Role.DOUBT]:
        raise Conflict(f"this node is not in doubt of etcd; run this on {' or '.join(doubting)}")
    raise Conflict("there is nothing to accept: no node is in doubt of etcd; see: gantry cluster")


def loss_words(view: ClusterView) -> Iterator[str]:
    """What accepting may lose, in sentences."""
    highest = max((member.epoch for member in view.members), default=view.epoch)
    others = {each.name for each in view.members if each.role is Role.DOUBT} - {view.asked}
    doubting = ", ".join(f"'{name}'" for name in (view.asked, *sorted(others)))
    told = f"it tells of epoch {view.epoch}, and the nodes remember up to {highest}"
    same = f"it tells of epoch {view.epoch}, as the nodes do, but it is another etcd, or has gone back since"
    yield f"etcd was restored or replaced: {told if highest > view.epoch else same}"
    yield f"in doubt: {doubting}"
    yield (
        "lost: changes that only the lost revisions of etcd held, which no candidate had as a file yet; the files of "
        "all candidates stay as they are"
    )
    behind = [member for member in view.members if member.lag_files or member.config_behind]
    if behind:
        names = ", ".join(f"'{each.name}' by {each.lag_files or 0} files" for each in behind)
        yield f"behind when last heard: {names}"
    yield "before you go on: stop the old members of etcd for good, and bring back every candidate whose disk is whole"
