"""The cluster: its name, its master, its numbers."""

from typing import Final

import attrs

from common.errors import GantryError
from common.system.daemons.program import release
from common.words.times import duration
from daemons.rapid.calls import Daemons
from daemons.rapid.page.views.frame import Health
from protocol.luxi.cluster import QUEUE_LAGS, QueryConfigValues
from protocol.luxi.daemon.metrics import LuxidMetrics, ReadMetrics, StoreNow
from protocol.wconfd.ghosts import ListGhosts

# a shorter silence of etcd is not told
_SILENT_S: Final = 1.0
_NAMES: Final = ("cluster_name", "master_node", QUEUE_LAGS)


@attrs.frozen
class ClusterNow:
    health: Health
    metrics: LuxidMetrics


async def cluster_now(daemons: Daemons) -> ClusterNow:
    name, master, lags = await daemons.luxid(QueryConfigValues(_NAMES))
    metrics = await daemons.luxid(ReadMetrics())
    # one machine has none
    ghosts = await _ghosts(daemons) if lags is not None else 0
    return ClusterNow(health_of(str(name), str(master), metrics, ghosts, is_copied=lags is not None), metrics)


def health_of(cluster: str, master: str, metrics: LuxidMetrics, ghosts: int = 0, *, is_copied: bool) -> Health:
    store = metrics.store
    behind = f"{store.nodes_behind} behind by {store.lag_files} files, {duration(store.lag_s)}"
    return Health(
        cluster,
        master,
        str(store.epoch) if store.epoch else "",
        "" if not is_copied else behind if store.nodes_behind else "up to date",
        bool(store.nodes_behind),
        _of_etcd(store),
        ghosts,
        metrics.queue.is_drained,
        release(),
    )


def _of_etcd(store: StoreNow) -> str:
    if store.etcd_is_full:
        return "is full: no job is taken"
    return f"has not replied for {duration(store.etcd_silent_s)}" if store.etcd_silent_s >= _SILENT_S else ""


async def _ghosts(daemons: Daemons) -> int:
    """How many dead owners keep locks; 0 also while wconfd is away, which is no reason to show nothing."""
    try:
        ghosts = await daemons.wconfd(ListGhosts())
    except GantryError:
        return 0
    return len(ghosts)
