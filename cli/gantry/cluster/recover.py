"""`gantry cluster recover`: begin anew with this node's files after all of etcd was lost.

Source: DESIGN section 14.
"""

from collections.abc import Iterator, Sequence

import attrs
import click

from cli.commands import Command
from cli.context import installation, up_command, uses_color, wants_json
from cli.exitcodes import DONE
from cli.gantry.cluster.asking import check_has_lease
from cli.gantry.cluster.convert import begin, check_empty, look_at, not_confirmed
from cli.gantry.cluster.etcdstate import check_down, own_says
from cli.screen import confirm, remark, say, say_json
from cli.tables import NOTHING, Column, Layout, render
from common.errors import Conflict
from common.nodes.failover import NodeSays, Situation, newer_copies
from common.nodes.ssconffiles import candidate_names
from common.settings import Settings

_COLUMNS = (
    Column("NODE"),
    Column("EPOCH", is_number=True),
    Column("CONFIGURATION", is_number=True),
    Column("LAST JOB", is_number=True),
    Column("STATE"),
)


@click.command("recover", cls=Command, examples=("gantry cluster recover --from-files",))
@click.option("--from-files", is_flag=True, help="Needed: this node's files become those of the cluster.")
@click.option("--accept-loss", is_flag=True, help="Go on although another candidate has newer files.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
def recover(from_files: bool, accept_loss: bool, yes: bool) -> int:
    """Begin anew in an empty etcd, after the data of all its members were lost; on the node with the newest files.

    The daemons of the master and keeperd are down on all candidates; the node daemons may run, and are asked how
    far their copies have come. What only etcd had is lost; if etcd was restored from a snapshot, use accept-restore.
    """
    if not from_files:
        raise click.UsageError("what only etcd had is lost by this; if you mean it, add --from-files")
    settings = installation()
    check_has_lease(settings)
    check_down(settings)
    own = own_says(settings)
    check_empty(look_at(settings), settings)
    situation = _situation(settings, own)
    newer = newer_copies(situation)
    if not wants_json():
        for line in render(_COLUMNS, list(_rows(situation)), Layout(has_color=uses_color())):
            say(line)
    for line in _loss_words(situation, newer):
        remark(line)
    if newer and not accept_loss:
        best = max(newer, key=_newness)
        raise Conflict(
            f"'{best.name}' has newer files: {best.copies}, this node has {own.copies}; run this there, or accept that "
            "what is missing here is lost: --accept-loss"
        )
    if not yes and not confirm(f"Go on with the files of '{own.name}'?"):
        return not_confirmed()
    others = [name for name in situation.candidates if name != own.name]
    begin(settings, own, others, situation.next_epoch, by="recover")
    if wants_json():
        say_json(_json(situation, newer))
    else:
        say(f"the cluster goes on with the files of '{own.name}', from epoch {situation.next_epoch} on")
        say(f"start it here first: {up_command()}")
    return DONE


def _situation(settings: Settings, own: NodeSays) -> Situation:
    """What the candidates say; this node's files are read here, as its node daemon need not run."""
    candidates = candidate_names(settings.paths)
    if [name for name in candidates if name != own.name]:
        # imported late: it loads TLS
        from cli.cluster.moving.survey import nodes_of, survey

        found = survey(settings, nodes_of(settings), with_offline=True)
        says = tuple(own if one.name == own.name else one for one in found.says)
        return attrs.evolve(found, says=says if own in says else (own, *says))
    return Situation(own.name, own.master or "", candidates, (own,))


def _rows(situation: Situation) -> Iterator[Sequence[str]]:
    for one in situation.says:
        if one.name not in situation.candidates and one.name != situation.own_name:
            continue
        held = one.copies
        yield (
            one.name,
            str(one.epoch.number) if one.copies is not None else NOTHING,
            str(held.config_serial) if held is not None else NOTHING,
            str(held.queue_serial) if held is not None else NOTHING,
            "this node" if one.name == situation.own_name else "replies" if held is not None else "does not reply",
        )


def _loss_words(situation: Situation, newer: Sequence[NodeSays]) -> Iterator[str]:
    silent = _silent(situation)
    yield (
        "lost: changes that no candidate had as a file yet when etcd was lost; 'gantry cluster' and the monitoring "
        "have shown that as the lag"
    )
    if newer:
        yield f"newer than this node: {', '.join(one.name for one in newer)}"
    if silent:
        yield f"not heard, and newer perhaps: {', '.join(silent)}; start their node daemons to be sure"


def _silent(situation: Situation) -> list[str]:
    told = {one.name for one in situation.says if one.copies is not None}
    return [name for name in situation.candidates if name not in told]


def _newness(one: NodeSays) -> tuple[int, int]:
    return (one.copies.queue_serial, one.copies.config_serial) if one.copies is not None else (0, 0)


def _json(situation: Situation, newer: Sequence[NodeSays]) -> dict[str, object]:
    return {
        "master": situation.own_name,
        "epoch": situation.next_epoch,
        "newer": [one.name for one in newer],
        "silent": _silent(situation),
    }
