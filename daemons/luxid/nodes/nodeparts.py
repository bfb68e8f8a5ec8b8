"""The parts of luxid that call other nodes, made if the settings know any.

TLS and HTTP are imported only then: on one machine luxid neither needs nor loads them.

Source: DESIGN section 12.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from common.ids import JobId
from common.settings import AFTER_ATTEMPT, Settings
from daemons.luxid.config import ConfigCache, ConfigFollowing, NewConfigs
from daemons.luxid.parts import EarlyParts, takes_up
from protocol.subscriptions import WconfdEvents

if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies
    from daemons.luxid.livedata import NodesData
    from daemons.luxid.nodes.orphans import OrphanParts
    from daemons.luxid.replicating.leasedqueue import LeasedQueue


def leased_queue(settings: Settings) -> "LeasedQueue | None":
    """What commits the queue in etcd; None: there is no lease. Raises: as `LeasedQueue` and `WireNames`."""
    if not settings.cluster.has_lease:
        return None
    from daemons.luxid.replicating.leasedqueue import LeasedQueue
    from protocol.noded.files import WireNames

    return LeasedQueue(settings, WireNames.of_installation(settings.root, os.environ))


def node_copies(settings: Settings) -> "NodeCopies | None":
    """The copies on other nodes; None: the settings want none. Raises: InvalidRequest: as `WireNames`."""
    if not settings.cluster.has_nodes:
        return None
    from daemons.luxid.copying.nodecopies import NodeCopies
    from daemons.luxid.copying.sending import CopyRules
    from protocol.noded.files import WireNames

    names = WireNames.of_installation(settings.root, os.environ)
    waits = settings.cluster.answer_after == AFTER_ATTEMPT
    return NodeCopies(settings.paths, names, CopyRules(settings.noded.port, settings.cluster.own_name, waits=waits))


def live_data(settings: Settings) -> "NodesData | None":
    """What asks node daemons for queries; None: the settings know no other nodes."""
    if not settings.cluster.has_nodes:
        return None
    from daemons.luxid.livedata import NodesData

    return NodesData(settings.paths, settings.noded.port, settings.luxid.live_data_s)


async def highest_on_nodes(settings: Settings) -> JobId:
    """The highest id of a job that another node knows; 0: none. Raises: OSError."""
    if not settings.cluster.has_nodes:
        return JobId(0)
    from daemons.luxid.nodes import idsonnodes

    return await idsonnodes.highest_on_nodes(settings)


async def serial_on_nodes(settings: Settings) -> JobId:
    """The highest serial of another node that tells it soon; 0: none does, or it cannot be higher. Raises: OSError."""
    if not settings.cluster.has_nodes or settings.cluster.has_lease:
        # under a lease each id is committed before it is used
        return JobId(0)
    from daemons.luxid.nodes import idsonnodes

    return await idsonnodes.serial_on_nodes(settings)


async def has_become_master(settings: Settings) -> bool:
    """Whether this luxid is the first of a mastership that an operator has moved here. Raises: DamagedFile, OSError."""
    if not takes_up(settings) or settings.cluster.has_lease:
        # under a lease each id is committed before it is used
        return False
    from daemons.luxid.nodes.orphans import LastEpoch

    return await LastEpoch(settings.paths.epoch_file, settings.paths.last_epoch).has_changed()


def orphan_parts(settings: Settings, early: EarlyParts) -> "OrphanParts | None":
    """What claims and releases orphaned locks; None: no commands run on nodes."""
    if not takes_up(settings):
        return None
    from daemons.luxid.nodes.orphans import OrphanParts

    return OrphanParts(settings, early)


def following(
    settings: Settings,
    early: EarlyParts,
    orphans: "OrphanParts | None",
    nursery: trio.Nursery,
    on_kept: Callable[[str | None], None],
) -> ConfigFollowing:
    """Passes wconfd's events to all parts that need them; start its `run`. Args: on_kept: as of `ConfigFollowing`."""
    events, news = WconfdEvents(settings.paths.wconfd_socket), NewConfigs(early.config)
    nursery.start_soon(early.totals.run)

    def on_any_kept(what: str | None) -> None:
        on_kept(what)
        early.totals.changed(what)

    if early.nodes is not None:
        nursery.start_soon(news.run)
    if orphans is None:
        return ConfigFollowing(early.parts.jobs, early.rules, events, news.tell, on_kept=on_any_kept)
    watch = orphans.watch

    def on_config() -> None:
        news.tell()
        watch.config_changed()

    return ConfigFollowing(early.parts.jobs, early.rules, events, on_config, watch.told, on_any_kept)


async def bring_up_address(settings: Settings, config: ConfigCache) -> None:
    """Bring up the master's address, if the settings say that the cluster has one."""
    if not settings.ganeti.master_address:
        return
    from daemons.luxid.nodes.masterip import bring_up

    await bring_up(settings.paths, config, settings.noded.port)
