"""`gantry cluster convert`: bring the queue and the configuration into etcd's care, or out of it.

Source: DESIGN section 14.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import click

from cli.commands import Command
from cli.context import command_line, installation, up_command, wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.gantry.cluster.etcdstate import check_down, on_etcd, own_says
from cli.screen import confirm, remark, say, say_json
from common.errors import Conflict, InvalidRequest
from common.lease.keys import Keys
from common.lease.laidfiles import files_behind
from common.nodes.failover import NodeSays
from common.nodes.ssconffiles import candidate_names
from common.settings import Settings

if TYPE_CHECKING:
    from protocol.etcd.client import EtcdClient
    from protocol.etcd.fenced.founding import Held

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
    from protocol.etcd.fenced.founding import found_cluster

    config_serial = own.copies.config_serial if own.copies is not None else 0

    async def work(client: "EtcdClient", keys: Keys) -> None:
        await found_cluster(client, keys, epoch=epoch, node=own.name, others=others, config_serial=config_serial, by=by)

    on_etcd(settings, work)


async def _look(client: "EtcdClient", keys: Keys) -> "Held":
    from protocol.etcd.fenced.founding import look

    return await look(client, keys)


def look_at(settings: Settings) -> "Held":
    """What etcd has of the cluster. Raises: as `look`."""
    return on_etcd(settings, _look)


def check_empty(held: "Held", settings: Settings) -> None:
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
    from protocol.etcd.fenced.founding import remove_cluster

    on_etcd(settings, partial(remove_cluster, held=held))
    settings.paths.lease_memory.unlink(missing_ok=True)
    if wants_json():
        say_json({"replication": settings.cluster.replication, "master": settings.cluster.own_name})
    else:
        say(f"{text}, and etcd has nothing of the cluster any more; start it here first: {up_command()}")
    return DONE


def _check_end(settings: Settings, held: "Held") -> None:
    """Raises: Conflict: somebody may be the master, or this node may lack something."""
    own, keys, last = settings.cluster.own_name, Keys(settings.etcd.prefix), held.last_master
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


def _waiting(keys: Keys, entries: Mapping[str, object]) -> int:
    return sum(key.startswith((keys.dirty, keys.config)) for key in entries)


def _lasting(settings: Settings) -> tuple[str, ...]:
    keys = Keys(settings.etcd.prefix)
    return keys.dirty, keys.config, keys.kept


def not_confirmed() -> int:
    remark("nothing was changed; to answer yes in a script, add --yes")
    return NOT_CONFIRMED


def _named(names: frozenset[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
