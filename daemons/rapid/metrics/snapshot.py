"""All numbers at one instant, and their text."""

from collections.abc import Iterator
from typing import Final

import attrs
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from common.metrics.process import ProcessUse
from daemons.rapid.metrics.daemonfamilies import DaemonReport, daemon_families
from daemons.rapid.metrics.httpfamilies import HttpNow, http_families
from daemons.rapid.metrics.leasefamilies import commit_families, mastership_families
from daemons.rapid.metrics.lockfamilies import lock_families
from daemons.rapid.metrics.queuefamilies import queue_families
from protocol.keeperd.calls import ClusterView
from protocol.luxi.daemon.metrics import LuxidMetrics
from protocol.wconfd.metrics import WconfdMetrics

# type that clients accept who know the newer format
OPEN_METRICS: Final = "application/openmetrics-text"


@attrs.frozen
class Snapshot:
    """The daemons' numbers; None: a daemon was not reached, and its numbers are left out."""

    luxid: LuxidMetrics | None
    wconfd: WconfdMetrics | None
    process: ProcessUse
    http: HttpNow
    # None: there is no lease, or keeperd was not reached
    mastership: ClusterView | None = None

    def families(self) -> Iterator[Metric]:
        """All families, each once."""
        yield from daemon_families(self._reports())
        if self.luxid is not None:
            yield from queue_families(self.luxid)
        if self.wconfd is not None:
            yield from lock_families(self.wconfd)
        if self.mastership is not None:
            yield from mastership_families(self.mastership)
        if self.wconfd is not None and self.wconfd.commits is not None:
            yield from commit_families(self.wconfd.commits)
        yield from http_families(self.http)

    def _reports(self) -> dict[str, DaemonReport | None]:
        return {
            "luxid": None if self.luxid is None else _of_luxid(self.luxid),
            "wconfd": None if self.wconfd is None else _of_wconfd(self.wconfd),
            "rapid": DaemonReport(self.process),
        }


def _of_luxid(told: LuxidMetrics) -> DaemonReport:
    writes = {"queue": told.durations.store_write}
    return DaemonReport(told.process, told.calls, told.jobs.backstop_wakeups, writes)


def _of_wconfd(told: WconfdMetrics) -> DaemonReport:
    writes = {name: work.write for name, work in told.files.items()}
    return DaemonReport(told.process, told.calls, told.backstop_wakeups, writes)


class _Collector(Collector):
    """The families of one snapshot, for the library."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        return self._snapshot.families()


def write(snapshot: Snapshot, *, is_open: bool = False) -> tuple[bytes, str]:
    """The text of the numbers, and its content type. Cost: some milliseconds.

    Args: is_open: in the format of OpenMetrics, instead of the older one of Prometheus.
    """
    # a registry of our own: that of the library would add numbers of this process under names of others
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    encode, content_type = choose_encoder(OPEN_METRICS if is_open else "")
    return encode(registry), content_type
