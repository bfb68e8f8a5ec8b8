"""The table of keeperd's Unix socket.

Source: DESIGN section 14.
"""

import attrs

from common.access import Role
from daemons.keeperd.handlers import ClusterViewHandlers, RequestHandlers
from protocol.keeperd import (
    AcceptRestoredEtcd,
    ReadKeeperdMetrics,
    SetMaintenance,
    ShowCluster,
    Switchover,
    Takeover,
    TestWatchdog,
)
from protocol.serving.route import AnyRoute, Route


@attrs.frozen
class KeeperdHandlers:
    """The handlers, by noun."""

    cluster: ClusterViewHandlers
    requests: RequestHandlers


def routes(to: KeeperdHandlers) -> list[AnyRoute]:
    """Return the table. Who may look, may look here; the rest is for administrators of the cluster."""
    return [
        Route(ShowCluster, to.cluster.show_cluster, only_waits=True, role=Role.READ),
        Route(ReadKeeperdMetrics, to.cluster.read_metrics, only_waits=True, role=Role.READ),
        Route(Switchover, to.requests.switchover, only_waits=True, role=Role.FULL),
        Route(Takeover, to.requests.takeover, only_waits=True, role=Role.FULL),
        Route(SetMaintenance, to.requests.maintenance, role=Role.FULL),
        Route(AcceptRestoredEtcd, to.requests.accept_restore, only_waits=True, role=Role.FULL),
        Route(TestWatchdog, to.requests.starve_watchdog, role=Role.FULL),
    ]
