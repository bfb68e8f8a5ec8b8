"""OP_GROUP_RENAME: gives a node group another name.

Source: opcodes.md 4 and 6.2, GROUP_RENAME.
"""

from collections.abc import Sequence
from typing import ClassVar

import attrs

from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.kinds import GroupUuid
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupRename
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import check_new_name, current_group, group_of


class GroupRenameUnit(LogicalUnit[OpGroupRename]):
    OPCODE: ClassVar[type[OpCode]] = OpGroupRename
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
        check_new_name(context.config, self.op.new_name)
        self._group = current_group(context.config, self._uuid, self.op.group_name)

    def run(self, context: UnitContext) -> str:
        context.config.change_groups([attrs.evolve(self._group, name=self.op.new_name)])
        return self.op.new_name
