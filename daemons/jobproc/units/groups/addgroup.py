"""OP_GROUP_ADD: makes a node group without nodes.

Source: opcodes.md 4 and 6.2, GROUP_ADD.
"""

import uuid as uuids
from collections.abc import Sequence
from typing import ClassVar

from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.ipolicy import PartialIpolicy
from common.objects.kinds import AllocPolicy
from common.objects.nodegroup import NodeGroup
from common.objects.params import PartialNdParams
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupAdd
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import check_new_name
from daemons.jobproc.units.groups.groupvalues import with_values


class GroupAddUnit(LogicalUnit[OpGroupAdd]):
    """The lock of the new group is its own: nobody knows its uuid yet. That its name is free is judged by wconfd."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupAdd

    def __init__(self, op: OpGroupAdd) -> None:
        super().__init__(op)
        self._uuid = str(uuids.uuid4())

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is not LockLevel.NODEGROUP:
            return ()
        return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)]

    def check_prereq(self, context: UnitContext) -> None:
        check_new_name(context.config, self.op.group_name)
        empty = NodeGroup(
            name=self.op.group_name,
            ndparams=PartialNdParams(),
            alloc_policy=AllocPolicy.PREFERRED,
            ipolicy=PartialIpolicy(),
            diskparams={},
            networks={},
            uuid=self._uuid,
            serial_no=0,
        )
        self._group = with_values(empty, self.op)

    def run(self, context: UnitContext) -> None:
        context.config.change_groups([self._group])
