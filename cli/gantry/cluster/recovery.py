"""The verbs of `gantry cluster` that begin, end or repair the use of etcd."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import click

from cli.clusterstate.etcd import check_down, on_etcd, own_says
from cli.commands import Command
from cli.context import command_line, installation, up_command, wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.gantry.cluster.mastership import ask, check_has_lease, show_lines
from cli.screen import confirm, remark, say, say_json, say_result
from cli.tables import NOTHING, Column, say_table
from common.errors import Conflict, InvalidRequest
from common.lease.laidfiles import files_behind
from common.lease.records import EtcdKeys, Role
from common.nodes.failover import NodeSays, Situation, newer_copies
from common.nodes.nodeplace import candidate_names
from common.settings import Settings
from protocol.keeperd import AcceptRestoredEtcd, ClusterView, ShowCluster

# `gantry cluster convert`: bring the queue and the configuration into etcd's care, or out of it.
#
# Source: DESIGN section 14.


if TYPE_CHECKING:
    from protocol.etcd.client import EtcdClient
    from protocol.etcd.founding import EtcdCluster

_WAYS = ("etcd", "nodes", "none")


@click.command("convert", cls=Command, examples=("gantry cluster convert", "gantry cluster convert --to nodes --yes"))
@click.option("--to", type=click.Choice(_WAYS), help="What the settings say already, as a check.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
def convert(to: str | None, yes: bool) -> int:
    """Let this node, the master, begin or end to use etcd, as 'replication' in [cluster] of gantry.toml says.

    All daemons are down meanwhile, on all nodes. The queue and the configuration stay as they are on this node.
    To etcd: it must have nothing of this cluster. The other candidates may become the master as soon as
    they have been compared with this one. Back: it is checked that etcd has nothing that this node's files lack, and
    what etcd has is removed.
    """
    settings = installation()
    way = settings.cluster.replication
    if to not in (None, way):
        raise InvalidRequest(
            f'the settings say replication = "{way}", and not "{to}": change [cluster] of gantry.toml on all nodes, '
            "and run this again"
        )
    check_down(settings)
    own = own_says(settings)
    _check_master(settings, own)
    return _begin(settings, own, yes=yes) if settings.cluster.has_lease else _end(settings, yes=yes)


def _check_master(settings: Settings, own: NodeSays) -> None:
    """Raises: Conflict: another node was the master last."""
    if own.master and own.master != own.name:
        raise Conflict(f"'{own.master}' is the master, not this node; run this there")
    if not own.epoch.is_of(own.name):
        raise Conflict(
            f"'{own.epoch.master or 'another node'}' has become the master since, with epoch {own.epoch.number}; run "
            "this there"
        )


def _begin(settings: Settings, own: NodeSays, *, yes: bool) -> int:
    held = on_etcd(settings, _look)
    check_empty(held, settings)
    others = [name for name in candidate_names(settings.paths) if name != own.name]
    text = f"etcd takes care of the queue and the configuration of '{own.name}', which has {own.copies}"
    if not yes and not confirm(f"{text}. All other nodes are down? Go on?"):
        return not_confirmed()
    epoch = own.epoch.number + 1
    begin(settings, own, others, epoch, by="convert")
    if wants_json():
        say_json({"replication": "etcd", "master": own.name, "epoch": epoch, "compared_first": others})
        return DONE
    say(f"{text}, from epoch {epoch} on")
    if others:
        say(f"these may follow as the master when they have been compared: {', '.join(others)}")
    say(f"start it here first: {up_command()}")
    return DONE


def begin(settings: Settings, own: NodeSays, others: list[str], epoch: int, *, by: str) -> None:
    """Let the cluster begin in etcd with this node's files. Raises: as `found_cluster`."""
    from protocol.etcd.founding import found_cluster

    config_serial = own.copies.config_serial if own.copies is not None else 0

    async def work(client: "EtcdClient", keys: EtcdKeys) -> None:
        await found_cluster(client, keys, epoch=epoch, node=own.name, others=others, config_serial=config_serial, by=by)

    on_etcd(settings, work)


async def _look(client: "EtcdClient", keys: EtcdKeys) -> "EtcdCluster":
    from protocol.etcd.founding import look

    return await look(client, keys)


def look_at(settings: Settings) -> "EtcdCluster":
    """What etcd has of the cluster. Raises: as `look`."""
    return on_etcd(settings, _look)


def check_empty(held: "EtcdCluster", settings: Settings) -> None:
    """Raises: Conflict: etcd has something of a cluster, or a keeperd runs elsewhere."""
    if held.alive:
        raise Conflict(f"keeperd runs on {_named(held.alive)}; stop it there first: gantry down")
    if not held.is_empty:
        who = (
            f"; '{held.last_master.node}' was the master of it last, with epoch {held.epoch}"
            if held.last_master
            else ""
        )
        raise Conflict(
            f"etcd has {len(held.content.entries)} keys of a cluster under '{settings.etcd.prefix}'{who}; if it is "
            "this one, start it with 'gantry up'; if it is another one, set another 'prefix' in [etcd] of gantry.toml"
        )


def _end(settings: Settings, *, yes: bool) -> int:
    if not settings.etcd.endpoints:
        raise InvalidRequest("name the etcd that is to be left in [etcd] of gantry.toml, until this is done")
    held = look_at(settings)
    if held.is_empty:
        raise Conflict(f"etcd has nothing under '{settings.etcd.prefix}': there is nothing to do; {up_command()}")
    _check_end(settings, held)
    count = sum(key.startswith(_lasting(settings)) for key in held.content.entries)
    text = f"'{settings.cluster.own_name}' has all that etcd has ({count} entries)"
    if not yes and not confirm(f"{text}; they are removed from etcd. All other nodes are down? Go on?"):
        return not_confirmed()
    from protocol.etcd.founding import remove_cluster

    on_etcd(settings, partial(remove_cluster, held=held))
    settings.paths.lease_memory.unlink(missing_ok=True)
    say_result(
        {"replication": settings.cluster.replication, "master": settings.cluster.own_name},
        f"{text}, and etcd has nothing of the cluster any more; start it here first: {up_command()}",
    )
    return DONE


def _check_end(settings: Settings, held: "EtcdCluster") -> None:
    """Raises: Conflict: somebody may be the master, or this node may lack something."""
    own, keys, last = settings.cluster.own_name, EtcdKeys(settings.etcd.prefix), held.last_master
    if held.master is not None:
        raise Conflict(
            f"'{held.master.node}' is the master still, or was until seconds ago; stop it, and run this again"
        )
    if held.alive:
        raise Conflict(f"keeperd runs on {_named(held.alive)}; stop it there first: gantry down")
    waiting = _waiting(keys, held.content.entries)
    if own in held.stale and last is not None:
        raise Conflict(f"this node lacks changes, it is stale; run this on '{last.node}', which was the master last")
    if last is not None and last.node != own and waiting:
        raise Conflict(
            f"'{last.node}' was the master last, and {waiting} changes wait in etcd for the others; run this there, or "
            f"move the master here first: gantry cluster switchover {own}"
        )
    if last is not None and not last.clean and waiting:
        raise Conflict(
            f"the last master did not end cleanly, and {waiting} changes wait in etcd: start it once more with "
            'replication = "etcd", so that they are laid over the files, and stop it by: '
            f"{command_line('gantry', 'down')}"
        )
    if behind := files_behind(settings.paths, keys, held.content.entries, own):
        raise Conflict(
            f"this node's files are not those of etcd: '{behind[0]}' and {len(behind) - 1} more; start it once "
            'more with replication = "etcd", and stop it'
        )


def _waiting(keys: EtcdKeys, entries: Mapping[str, object]) -> int:
    return sum(key.startswith((keys.dirty, keys.config)) for key in entries)


def _lasting(settings: Settings) -> tuple[str, ...]:
    keys = EtcdKeys(settings.etcd.prefix)
    return keys.dirty, keys.config, keys.kept


def not_confirmed() -> int:
    remark("nothing was changed; to answer yes in a script, add --yes")
    return NOT_CONFIRMED


def _named(names: frozenset[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


# `gantry cluster accept-restore`: go on with an etcd that is older than what the nodes remember.
#
# Source: lease.md 4.


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
    say_result({"accepted": True}, "accepted; a candidate becomes the master within seconds; see: gantry cluster")
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


# `gantry cluster recover`: begin anew with this node's files after all of etcd was lost.
#
# Source: DESIGN section 14.


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
        say_table(_COLUMNS, list(_rows(situation)))
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
    say_result(
        _json(situation, newer),
        f"the cluster goes on with the files of '{own.name}', from epoch {situation.next_epoch} on",
        f"start it here first: {up_command()}",
    )
    return DONE


def _situation(settings: Settings, own: NodeSays) -> Situation:
    """What the candidates say; this node's files are read here, as its node daemon need not run."""
    candidates = candidate_names(settings.paths)
    if [name for name in candidates if name != own.name]:
        # imported late: it loads TLS
        from cli.cluster.moving import nodes_of, survey

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
