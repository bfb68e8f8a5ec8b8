"""The cluster: its name, its master, its numbers."""

from typing import Final

import attrs

from common.system.daemons.program import release
from common.words.times import duration
from daemons.rapid.calls import Daemons
from daemons.rapid.page.views.frame import Health
from protocol.luxi.cluster import QUEUE_LAGS, QueryConfigValues
from protocol.luxi.metrics import LuxidMetrics, ReadMetrics

_NAMES: Final = ("cluster_name", "master_node", QUEUE_LAGS)


@attrs.frozen
class ClusterNow:
    health: Health
    metrics: LuxidMetrics


async def cluster_now(daemons: Daemons) -> ClusterNow:
    name, master, lags = await daemons.luxid(QueryConfigValues(_NAMES))
    metrics = await daemons.luxid(ReadMetrics())
    return ClusterNow(health_of(str(name), str(master), metrics, is_copied=lags is not None), metrics)


def health_of(cluster: str, master: str, metrics: LuxidMetrics, *, is_copied: bool) -> Health:
    store = metrics.store
    behind = f"{store.nodes_behind} behind by {store.lag_files} files, {duration(store.lag_s)}"
    return Health(
        cluster,
        master,
        str(store.epoch) if store.epoch else "",
        "" if not is_copied else behind if store.nodes_behind else "up to date",
        bool(store.nodes_behind),
        metrics.queue.is_drained,
        release(),
    )
