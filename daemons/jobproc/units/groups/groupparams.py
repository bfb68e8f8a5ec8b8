"""OP_GROUP_SET_PARAMS: changes the policies and parameters of a node group.

Source: opcodes.md 4 and 6.2, GROUP_SET_PARAMS.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.codec import to_json
from common.objects.index import ConfigIndex
from common.objects.kinds import GroupUuid
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupSetParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import current_group, group_of, shown_names
from daemons.jobproc.units.groups.groupvalues import disk_parameters_json, with_values
from daemons.jobproc.units.values.violations import new_violations

_VALUES: Final = ("alloc_policy", "ndparams", "diskparams", "ipolicy", "hv_state", "disk_state")


class GroupSetParamsUnit(LogicalUnit[OpGroupSetParams]):
    """The group's instances are locked, since its policy says how large they may be."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupSetParams
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        if all(getattr(self.op, name) is None for name in _VALUES):
            raise PrerequisiteError(f"there is nothing to change; known are {', '.join(_VALUES)}", "wrong_input")
        self._uuid = GroupUuid(group_of(context.config, self.op.group_name).uuid)
        self._instances = instances_of_group(context.config, self._uuid)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.INSTANCE:
            return [LockRequest(member_lock(level, name), LockMode.SHARED) for name in self._instances]
        if level is LockLevel.NODEGROUP:
            return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)]
        return ()

    def check_prereq(self, context: UnitContext) -> None:
        config = context.config
        group = current_group(config, self._uuid, self.op.group_name)
        if set(instances_of_group(config, self._uuid)) - set(self._instances):
            raise PrerequisiteError(f"instances of node group '{group.name}' were added meanwhile; try again")
        self._group = with_values(group, self.op)
        self._violations = new_violations(config, group, self._group.ipolicy)

    def run(self, context: UnitContext) -> list[list[str]]:
        if names := self._violations:
            text = "instances that do not keep to the changed policy"
            context.feedback(f"warning: {text}: {shown_names(names)}; they stay as they are")
        context.config.update(self._group)
        return self._changes()

    def _changes(self) -> list[list[str]]:
        """The result of the opcode: what is not told in it, Ganeti does not tell either."""
        result = []
        if self.op.ndparams:
            result.append(["ndparams", str(to_json(self._group.ndparams))])
        if self.op.diskparams:
            result.append(["diskparams", str(disk_parameters_json(self._group))])
        return result


def instances_of_group(config: ConfigIndex, group: str) -> Sequence[str]:
    """The names of the instances with a primary or secondary node in the group, by name."""
    nodes = [node.uuid for node in config.group_nodes(group)]
    return sorted({name for node in nodes for name in (*config.primaries(node), *config.secondaries(node))})
