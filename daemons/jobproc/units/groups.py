"""The opcodes on node groups."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError, wrong_input
from common.locks import LockLevel, LockMode, LockRequest
from common.objects.codec import to_json
from common.objects.config import Node, NodeGroup, PartialIpolicy, PartialNdParams
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import AllocPolicy, GroupUuid, NodeUuid
from common.objects.parameters import (
    changed_disk_parameters,
    changed_disk_state,
    changed_group_parameters,
    changed_hv_state,
)
from common.objects.policies import changed_group_policy, new_violations
from common.opcodes.base import OpCode
from common.opcodes.group import (
    GroupParams,
    OpGroupAdd,
    OpGroupAssignNodes,
    OpGroupRemove,
    OpGroupRename,
    OpGroupSetParams,
)
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.objects import GROUP, AddUnit, ChangeUnit, ObjectKind, ObjectUnit, RemoveUnit, RenameUnit

_MOST_NAMES: Final = 10


def shown_names(names: Sequence[str]) -> str:
    """Names in a text: the first ones, and how many there are beside them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


# The values of a group that an opcode sets. Pure.
#
# Source: opcodes.md 4, GROUP_ADD and GROUP_SET_PARAMS.


def with_values(group: NodeGroup, op: GroupParams) -> NodeGroup:
    """The group with the opcode's values; those that are unset or empty stay.

    Raises: PrerequisiteError: an unknown name or a wrong value.
    """
    return attrs.evolve(
        group,
        alloc_policy=op.alloc_policy or group.alloc_policy,
        ndparams=changed_group_parameters(group.ndparams, op.ndparams or {}),
        diskparams=changed_disk_parameters(group.diskparams, op.diskparams or {}),
        ipolicy=changed_group_policy(group.ipolicy, op.ipolicy or {}),
        hv_state_static=changed_hv_state(group.hv_state_static, op.hv_state or {}),
        disk_state_static=changed_disk_state(group.disk_state_static, op.disk_state or {}),
    )


# OP_GROUP_ADD: makes a node group without nodes.
#
# Source: opcodes.md 4 and 6.2, GROUP_ADD.


class GroupAddUnit(AddUnit[OpGroupAdd, NodeGroup]):
    OPCODE: ClassVar[type[OpCode]] = OpGroupAdd
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP

    def changed(self, context: UnitContext) -> NodeGroup:
        empty = NodeGroup(
            name=self.op.group_name,
            ndparams=PartialNdParams(),
            alloc_policy=AllocPolicy.PREFERRED,
            ipolicy=PartialIpolicy(),
            diskparams={},
            networks={},
            uuid=self.uuid,
            serial_no=0,
        )
        return with_values(empty, self.op)


# OP_GROUP_SET_PARAMS: changes the policies and parameters of a node group.
#
# Source: opcodes.md 4 and 6.2, GROUP_SET_PARAMS.


class GroupSetParamsUnit(ChangeUnit[OpGroupSetParams, NodeGroup]):
    """The group's instances are locked, since its policy says how large they may be."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupSetParams
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP
    VALUES: ClassVar[Sequence[str]] = ("alloc_policy", "ndparams", "diskparams", "ipolicy", "hv_state", "disk_state")
    ADVICE: ClassVar[str] = f"known are {', '.join(VALUES)}"

    def expand_names(self, context: UnitContext) -> None:
        super().expand_names(context)
        instances = context.config.group_instances(self.target.uuid)
        self.lock_names = {**self.lock_names, LockLevel.INSTANCE: instances}

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        requests = super().declare_locks(level, context)
        # instances need only shared locks, though luxid, as Ganeti's, expects exclusive ones
        is_shared = level is LockLevel.INSTANCE
        return [LockRequest(each.lock, LockMode.SHARED) for each in requests] if is_shared else requests

    def changed(self, context: UnitContext) -> NodeGroup:
        after = with_values(self.target, self.op)
        if names := new_violations(context.config, self.target, after.ipolicy):
            text = "instances that do not keep to the changed policy"
            self.notes.append(f"warning: {text}: {shown_names(names)}; they stay as they are")
        return after

    def write(self, context: UnitContext) -> None:
        context.config.update(self.after)

    def result(self) -> list[list[str]]:
        """What was set, as far as Ganeti's job tells it."""
        result = []
        if self.op.ndparams:
            result.append(["ndparams", str(to_json(self.after.ndparams))])
        if self.op.diskparams:
            values = {template.value: dict(values) for template, values in self.after.diskparams.items()}
            result.append(["diskparams", str(values)])
        return result


# OP_GROUP_REMOVE and OP_GROUP_RENAME: take a node group without nodes out of the cluster, or give it another name.
#
# Source: opcodes.md 4 and 6.2, GROUP_REMOVE and GROUP_RENAME.


class GroupRemoveUnit(RemoveUnit[OpGroupRemove, NodeGroup]):
    """The last group stays: every node is in one."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupRemove
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP

    def check_prereq(self, context: UnitContext) -> None:
        name = self.target.name
        if nodes := [node.name for node in context.config.group_nodes(self.target.uuid)]:
            raise PrerequisiteError(
                f"node group '{name}' has nodes: {shown_names(nodes)}; put them into another group first: "
                "gnt-group assign-nodes GROUP NODE..."
            )
        if len(context.config.groups) == 1:
            raise PrerequisiteError(f"node group '{name}' is the only one, and cannot be removed")


class GroupRenameUnit(RenameUnit[OpGroupRename, NodeGroup]):
    OPCODE: ClassVar[type[OpCode]] = OpGroupRename
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP


# Instances whose nodes are in several groups. Pure.
#
# Source: opcodes.md 4, GROUP_ASSIGN_NODES.


@attrs.frozen
class Splits:
    """Names of instances that are split after a change."""

    # whose nodes were in one group before
    new: Sequence[str]
    # whose nodes were in several before
    old: Sequence[str]


def splits_after(config: ConfigIndex, moved: Mapping[NodeUuid, GroupUuid]) -> Splits:
    """The instances that are split when these nodes are in these groups.

    Cost: O(instances).
    """
    before = {NodeUuid(node.uuid): node.group for node in config.nodes}
    after = {**before, **moved}
    new: list[str] = []
    old: list[str] = []
    for instance in config.instances:
        nodes = [node for node in (instance.primary_node, *config.secondary_nodes(instance)) if node in before]
        if instance.name is not None and len({after[node] for node in nodes}) > 1:
            was_split = len({before[node] for node in nodes}) > 1
            (old if was_split else new).append(instance.name)
    return Splits(new, old)


# OP_GROUP_ASSIGN_NODES: puts nodes into a node group.
#
# Theory. A mirrored instance should have its nodes in one group, for it moves between them. A change that would split
# one is refused, unless it is forced.
#
# Source: opcodes.md 4 and 6.2, GROUP_ASSIGN_NODES.


class GroupAssignNodesUnit(ObjectUnit[OpGroupAssignNodes, NodeGroup]):
    """Locked are the nodes, the group, and the groups that lose them."""

    OPCODE: ClassVar[type[OpCode]] = OpGroupAssignNodes
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP

    def expand_names(self, context: UnitContext) -> None:
        super().expand_names(context)
        nodes = {node.uuid: node for node in self._named(context.config)}
        self._nodes = [nodes[uuid] for uuid in sorted(nodes)]
        self.lock_names = {
            LockLevel.NODEGROUP: sorted({self.target.uuid, *(node.group for node in self._nodes)}),
            LockLevel.NODE: [node.uuid for node in self._nodes],
        }

    def check_prereq(self, context: UnitContext) -> None:
        group = GroupUuid(self.target.uuid)
        self._changed = [attrs.evolve(node, group=group) for node in self._nodes if node.group != group]
        moved = dict.fromkeys((NodeUuid(node.uuid) for node in self._changed), group)
        self._splits = splits_after(context.config, moved)
        if self._splits.new and not self.op.force:
            raise PrerequisiteError(
                f"with these nodes in node group '{self.target.name}' instances would have nodes in several groups: "
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
            raise wrong_input("no nodes are named; name those that the group should have")
        if self.op.node_uuids is None:
            return find_named(config.nodes, self.op.nodes, "node", is_host=True)
        found = [config.config.nodes.get(NodeUuid(uuid)) for uuid in self.op.node_uuids]
        if None in found:
            raise PrerequisiteError("one of the uuids is no node's", "unknown_entity")
        return [node for node in found if node is not None]
