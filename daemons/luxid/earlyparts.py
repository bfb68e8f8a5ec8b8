"""The parts of luxid that exist before its queue is read.

Source: DESIGN section 6.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from common.objects.index import ConfigIndex
from common.settings import Settings
from daemons.luxid.config.configcache import ConfigCache
from daemons.luxid.config.filterrules import UNKNOWN, FilterRules
from daemons.luxid.config.resourcetotals import ResourceTotals
from daemons.luxid.core.choice.aliases import aliases_of
from daemons.luxid.core.copies.commitsnow import CommitsNow
from daemons.luxid.core.copies.etcdroom import BOUNDLESS, EtcdRoom
from daemons.luxid.files.store import Store
from daemons.luxid.parts import Parts
from daemons.luxid.processes.cancelling import CommitAsk
from daemons.luxid.watching import QueueWatch
from protocol.client import Client

if TYPE_CHECKING:
    from daemons.luxid.copying.nodecopies import NodeCopies
    from daemons.luxid.livedata.nodesdata import NodesData

AWAY: Final = "the fork server is not reached"


def takes_up(settings: Settings) -> bool:
    """Whether commands run on nodes, where they outlive the processes of their jobs."""
    return settings.cluster.has_nodes and not settings.luxid.executor


@attrs.frozen
class EarlyParts:
    """The parts that exist before the queue is read."""

    watch: QueueWatch
    parts: Parts
    wconfd: Client
    config: ConfigCache
    rules: FilterRules
    totals: ResourceTotals
    nodes: "NodeCopies | None"
    live: "NodesData | None"
    # how commits are doing; None: there is no lease
    commits: Callable[[], CommitsNow] | None = None
    # what may be committed when etcd fills up
    room: EtcdRoom = BOUNDLESS
    # lets next masters know what was asked of jobs; None: there is no lease
    commit_ask: CommitAsk | None = None


def early_parts(
    settings: Settings,
    store: Store,
    watch: QueueWatch,
    nodes: "NodeCopies | None",
    live: "NodesData | None",
    commits: Callable[[], CommitsNow] | None = None,
    room: EtcdRoom = BOUNDLESS,
    commit_ask: CommitAsk | None = None,
) -> EarlyParts:
    """Make them; the queue of jobs has obstacles until others are ready."""
    parts = Parts.make(store, settings.luxid, settings.limits, takes_up=takes_up(settings))
    # until the launcher is connected
    parts.scheduler.obstruct(AWAY)
    # until the configuration could be read
    parts.scheduler.obstruct(UNKNOWN)
    wconfd = Client(settings.paths.wconfd_socket, daemon="wconfd")
    queue = parts.jobs.queue

    def on_read(index: ConfigIndex) -> None:
        queue.aliases_changed(aliases_of(index.config))
        if nodes is not None:
            nodes.follow(index)

    config = ConfigCache(settings.paths.config_data, wconfd, on_read)
    rules = FilterRules(parts.scheduler, config)
    totals = ResourceTotals(parts.scheduler, Client(settings.paths.wconfd_socket, daemon="wconfd"), parts.left.is_ready)
    return EarlyParts(watch, parts, wconfd, config, rules, totals, nodes, live, commits, room, commit_ask)
