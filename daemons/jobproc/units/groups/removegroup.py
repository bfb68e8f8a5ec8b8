"""OP_GROUP_REMOVE: removes a node group that has no nodes.

Source: opcodes.md 4 and 6.2, GROUP_REMOVE.
"""

from collections.abc import Sequence
from typing import ClassVar

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.kinds import GroupUuid
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupRemove
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import current_group, group_of, shown_names


class GroupRemoveUnit(LogicalUnit[OpGroupRemove]):
    """The last group stays: every node is in one."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupRemove
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._uuid = GroupUuid(group_of(context.config, self.op.group_name).uuid)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is not LockLevel.NODEGROUP:
            return ()
        return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)]

    def check_prereq(self, context: UnitContext) -> None:
        group = current_group(context.config, self._uuid, self.op.group_name)
        if nodes := [node.name for node in context.config.group_nodes(group.uuid)]:
            raise PrerequisiteError(
                f"node group '{group.name}' has nodes: {shown_names(nodes)}; put them into another group first: "
                "gnt-group assign-nodes GROUP NODE..."
            )
        if len(context.config.groups) == 1:
            raise PrerequisiteError(f"node group '{group.name}' is the only one, and cannot be removed")

    def run(self, context: UnitContext) -> None:
        context.config.change_groups(removed=[self._uuid])
