"""OP_CLUSTER_QUERY, OP_CLUSTER_CONFIG_QUERY and OP_CLUSTER_POST_INIT: what luxid knows of the cluster.

Source: opcodes.md 4; luxid.md 2.8.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterConfigQuery, OpClusterPostInit, OpClusterQuery
from common.wire import unstructure
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from protocol.blocking import BlockingClient
from protocol.luxi.cluster import QueryClusterInfo, QueryConfigValues


class ClusterQueryUnit(LogicalUnit[OpClusterQuery]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterQuery

    def run(self, context: UnitContext) -> Mapping[str, object]:
        """Return the facts of QueryClusterInfo."""
        with _luxid(context) as client:
            facts = client.call_retrying(QueryClusterInfo())
        return {name: unstructure(value) for name, value in facts.items()}


class ClusterConfigQueryUnit(LogicalUnit[OpClusterConfigQuery]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterConfigQuery

    def run(self, context: UnitContext) -> Sequence[object]:
        """Return the values of the named fields, in their order."""
        with _luxid(context) as client:
            return [unstructure(value) for value in client.call_retrying(QueryConfigValues(self.op.output_fields))]


class ClusterPostInitUnit(LogicalUnit[OpClusterPostInit]):
    """In Ganeti it runs the hooks after the making of a cluster; here there are none."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterPostInit

    def run(self, context: UnitContext) -> bool:
        return True


def _luxid(context: UnitContext) -> BlockingClient:
    return BlockingClient(context.settings.paths.query_socket, daemon="the queue daemon")
