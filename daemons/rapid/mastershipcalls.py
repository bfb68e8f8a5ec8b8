"""The mastership under a lease, as keeperd of this node knows it; served on every node.

Source: DESIGN section 14.
"""

from collections.abc import Sequence

from common.errors import NotFound
from common.webaccess.rights import Right
from daemons.rapid.backend import ConnectionPool
from daemons.rapid.calls import Asked, Call
from protocol.keeperd import ClusterView, ShowCluster


class MastershipHandlers:
    """Args: keeperd: None: the cluster has no lease."""

    def __init__(self, keeperd: ConnectionPool | None) -> None:
        self._keeperd = keeperd

    async def show(self, _: Asked) -> ClusterView:
        """Raises: NotFound: there is no lease. As `ConnectionPool.call`."""
        if self._keeperd is None:
            raise NotFound("this cluster has no lease: its master is moved by hand; '/3/health' tells who it is")
        return await self._keeperd.call(ShowCluster())


def rows(to: MastershipHandlers) -> Sequence[Call]:
    """The row of the mastership."""
    return [
        Call(
            "GET",
            "/3/mastership",
            to.show,
            "Show who is the master, the candidates with what they lack, and the members of etcd.",
            name="getMastership",
            gives=ClusterView,
            tag="cluster",
            rights=(Right.CLUSTER_READ,),
            errors=(404,),
            only_waits=True,
            is_everywhere=True,
        )
    ]
