"""OP_CLUSTER_VERIFY_GROUP: whether the nodes of a group reply, and have the files and certificates of the cluster.

Instances and their disks are not looked at here. A cluster of one machine has no nodes to ask.

Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY_GROUP; noded.md 6; recorded jobs.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.kinds import GroupUuid
from common.objects.node import Node
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterVerifyGroup
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.cluster.findings import Findings
from daemons.jobproc.units.groups.groupnames import current_group, group_of

if TYPE_CHECKING:
    from daemons.jobproc.units.cluster.nodefaults import NodeFaults

_LATER_STEPS: Final = (
    "* Verifying instance status",
    "* Verifying orphan volumes",
    "* Verifying N+1 Memory redundancy",
    "* Other Notes",
    "* Hooks Results",
)


class ClusterVerifyGroupUnit(LogicalUnit[OpClusterVerifyGroup]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterVerifyGroup
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        config = context.config
        self._group = GroupUuid(group_of(config, self.op.group_name).uuid)
        nodes = config.group_nodes(self._group)
        self._nodes = tuple(node.uuid for node in nodes)
        self._instances = tuple(sorted({name for node in nodes for name in config.primaries(node.uuid)}))

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        names: Mapping[LockLevel, Sequence[str]] = {
            LockLevel.INSTANCE: self._instances,
            LockLevel.NODEGROUP: (self._group,),
            LockLevel.NODE: self._nodes,
        }
        return [LockRequest(member_lock(level, name), LockMode.SHARED) for name in names.get(level, ())]

    def run(self, context: UnitContext) -> bool:
        """Return whether all is well, ignored faults aside."""
        config, findings = context.config, Findings(self.op, context.feedback)
        group = current_group(config, self._group, self.op.group_name)
        nodes = config.group_nodes(self._group)
        count = f"({len(nodes)} nodes)"
        context.feedback(f"* Verifying group '{group.name}'")
        context.feedback(f"* Gathering data {count}")
        context.feedback(f"* Gathering information about nodes {count}")
        # the master's own files are what the others are compared with, and it may have no node daemon
        master = config.cluster.master_node
        faults = _ask(context, [node for node in nodes if not node.offline and node.uuid != master])
        context.feedback(f"* Gathering disk information {count}")
        context.feedback("* Verifying configuration file consistency")
        context.feedback("* Verifying node status")
        if faults is not None:
            faults.tell(findings)
        for step in _LATER_STEPS:
            context.feedback(step)
        return not findings.is_bad


def _ask(context: UnitContext, nodes: Sequence[Node]) -> "NodeFaults | None":
    """What is wrong with these nodes; None: the cluster has one machine."""
    if not context.settings.cluster.has_nodes:
        return None
    # imported late: see there
    from daemons.jobproc.units.cluster.nodefaults import ask_nodes

    return ask_nodes(context, nodes)
