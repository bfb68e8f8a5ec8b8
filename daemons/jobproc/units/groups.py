"""The opcodes on node groups."""

import uuid as uuids
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.codec import to_json
from common.objects.config import Node, NodeGroup, PartialIpolicy, PartialNdParams
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import AllocPolicy, GroupUuid, NodeUuid
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
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes import changed_group_parameters
from daemons.jobproc.units.values import (
    changed_disk_parameters,
    changed_disk_state,
    changed_group_policy,
    changed_hv_state,
    new_violations,
)

# Finding the group that an opcode names, and the names that groups may have.
#
# Source: opcodes.md 4.


_MOST_NAMES: Final = 10


def group_of(config: ConfigIndex, name: str) -> NodeGroup:
    """The group with this uuid or name. Raises: PrerequisiteError: there is none."""
    known = config.config.nodegroups.get(GroupUuid(name))
    return known or find_named(config.groups, [name], "node group", is_host=False)[0]


def current_group(config: ConfigIndex, uuid: GroupUuid, name: str) -> NodeGroup:
    """The group as it is now, with its lock held. Raises: PrerequisiteError: it was removed before the lock was."""
    found = config.config.nodegroups.get(uuid)
    if found is None:
        raise PrerequisiteError(f"node group '{name}' was removed meanwhile", "unknown_entity")
    return found


def shown_names(names: Sequence[str]) -> str:
    """Names in a text: the first ones, and how many there are beside them."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def check_new_name(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: a group has this name or uuid, or nobody could write it."""
    if name != name.strip() or not name.isprintable():
        raise PrerequisiteError(
            f"a node group cannot be called {name!r:.80}: blanks at an end and control characters are refused",
            "wrong_input",
        )
    for group in config.groups:
        if name in (group.name, group.uuid):
            raise PrerequisiteError(f"there is a node group '{name}' already (uuid {group.uuid})", "already_exists")


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


def disk_parameters_json(group: NodeGroup) -> Mapping[str, object]:
    return {template.value: dict(values) for template, values in group.diskparams.items()}


# OP_GROUP_ADD: makes a node group without nodes.
#
# Source: opcodes.md 4 and 6.2, GROUP_ADD.


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


# OP_GROUP_SET_PARAMS: changes the policies and parameters of a node group.
#
# Source: opcodes.md 4 and 6.2, GROUP_SET_PARAMS.


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


# OP_GROUP_REMOVE: removes a node group that has no nodes.
#
# Source: opcodes.md 4 and 6.2, GROUP_REMOVE.


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


# OP_GROUP_RENAME: gives a node group another name.
#
# Source: opcodes.md 4 and 6.2, GROUP_RENAME.


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
