"""OP_GROUP_ASSIGN_NODES: puts nodes into a node group.

Theory. A mirrored instance should have its nodes in one group, for it moves between them. A change that would split
one is refused, unless it is forced.

Source: opcodes.md 4 and 6.2, GROUP_ASSIGN_NODES.
"""

from collections.abc import Sequence
from typing import ClassVar

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import GroupUuid, NodeUuid
from common.objects.node import Node
from common.opcodes.base import OpCode
from common.opcodes.group import OpGroupAssignNodes
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import current_group, group_of, shown_names
from daemons.jobproc.units.groups.splits import splits_after


class GroupAssignNodesUnit(LogicalUnit[OpGroupAssignNodes]):
    """Locked are the nodes, the group, and the groups that lose them."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupAssignNodes
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        config = context.config
        self._uuid = GroupUuid(group_of(config, self.op.group_name).uuid)
        nodes = self._named(config)
        self._nodes = sorted({NodeUuid(node.uuid) for node in nodes})
        self._groups = {self._uuid, *(node.group for node in nodes)}

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        names: Sequence[str] = ()
        if level is LockLevel.NODEGROUP:
            names = sorted(self._groups)
        elif level is LockLevel.NODE:
            names = self._nodes
        return [LockRequest(member_lock(level, name), LockMode.EXCLUSIVE) for name in names]

    def check_prereq(self, context: UnitContext) -> None:
        config = context.config
        group = current_group(config, self._uuid, self.op.group_name)
        nodes = [node for uuid in self._nodes if (node := config.config.nodes.get(uuid))]
        if len(nodes) < len(self._nodes):
            raise PrerequisiteError("a node was removed meanwhile; try again", "unknown_entity")
        if moved := [node.name for node in nodes if node.group not in self._groups]:
            raise PrerequisiteError(f"node '{moved[0]}' was put into another group meanwhile; try again")
        self._changed: Sequence[Node] = [
            attrs.evolve(node, group=self._uuid) for node in nodes if node.group != self._uuid
        ]
        self._splits = splits_after(config, dict.fromkeys((NodeUuid(node.uuid) for node in self._changed), self._uuid))
        if self._splits.new and not self.op.force:
            raise PrerequisiteError(
                f"with these nodes in node group '{group.name}' instances would have nodes in several groups: "
                f"{shown_names(self._splits.new)}; name all their nodes, or add --force"
            )

    def run(self, context: UnitContext) -> None:
        if self._splits.new:
            context.feedback(f"warning: instances now have nodes in several groups: {shown_names(self._splits.new)}")
        if self._splits.old:
            context.feedback(f"warning: instances still have nodes in several groups: {shown_names(self._splits.old)}")
        if self._changed:
            # roles stay, so the pool of candidates is not judged
            context.config.change_nodes(self._changed, may_fall_short=True)

    def _named(self, config: ConfigIndex) -> Sequence[Node]:
        if not self.op.nodes:
            raise PrerequisiteError("no nodes are named; name those that the group should have", "wrong_input")
        if self.op.node_uuids is None:
            return find_named(config.nodes, self.op.nodes, "node", is_host=True)
        found = [config.config.nodes.get(NodeUuid(uuid)) for uuid in self.op.node_uuids]
        if None in found:
            raise PrerequisiteError("one of the uuids is no node's", "unknown_entity")
        return [node for node in found if node is not None]
