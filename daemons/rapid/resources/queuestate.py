"""The queue as a whole, and facts of the cluster.

Source: luxid.md 2.2, 2.7, 2.8.
"""

from collections.abc import Mapping

from daemons.rapid.calls import Asked, Daemons
from protocol.luxi.cluster import QueryClusterInfo, QueryConfigValues
from protocol.luxi.daemon.metrics import ReadMetrics
from protocol.luxi.queue import SetDrainFlag, SetJobLimits
from protocol.rapid.queue import LimitsWish, Queue


class QueueState:
    """The calls about the queue."""

    async def get_queue(self, asked: Asked) -> Queue:
        return await fetch_queue(asked.daemons)

    async def drain(self, asked: Asked) -> Queue:
        await asked.daemons.luxid(SetDrainFlag(True))
        return await fetch_queue(asked.daemons)

    async def undrain(self, asked: Asked) -> Queue:
        await asked.daemons.luxid(SetDrainFlag(False))
        return await fetch_queue(asked.daemons)

    async def set_limits(self, asked: Asked) -> Queue:
        """Raises: InvalidRequest: a limit is below 1. Denied."""
        wish = asked.body_as(LimitsWish)
        await asked.daemons.luxid(SetJobLimits(wish.max_running_jobs, wish.max_tracked_jobs))
        return await fetch_queue(asked.daemons)

    async def get_cluster(self, asked: Asked) -> Mapping[str, object]:
        return await asked.daemons.luxid(QueryClusterInfo())


async def fetch_queue(daemons: Daemons) -> Queue:
    drained, until = await daemons.luxid(QueryConfigValues(("drain_flag", "watcher_pause")))
    facts = await daemons.luxid(QueryClusterInfo())
    return Queue(
        bool(drained),
        float(until) if isinstance(until, int | float) else None,
        _count(facts.get("max_running_jobs")),
        _count(facts.get("max_tracked_jobs")),
        (await daemons.luxid(ReadMetrics())).queue.deferred,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None
