"""OP_CLUSTER_REDIST_CONF: sends the configuration, and the other files that all nodes share, to the nodes again.

Source: noded.md 8.
"""

from typing import ClassVar

from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterRedistConf
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.sharedfiles import send_shared_files


class RedistConfUnit(LogicalUnit[OpClusterRedistConf]):
    """Nodes that are not reached are told of in the job's log, and do not fail the job, as in Ganeti."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterRedistConf

    def run(self, context: UnitContext) -> None:
        # as Ganeti does it: the serial numbers rise
        context.config.update(context.config.cluster)
        has_nodes = context.settings.cluster.has_nodes
        next_step = "wconfd tries again" if has_nodes else "'replication' in '[cluster]' is 'none'"
        for name in context.config.redistribute():
            context.feedback(f"warning: the configuration has not reached node '{name}'; {next_step}")
        if has_nodes:
            for text in send_shared_files(context):
                context.feedback(f"warning: {text}")
