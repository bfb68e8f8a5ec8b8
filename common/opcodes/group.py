"""Opcodes on node groups.

Source: opcodes.md 4, 6.2.
"""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from common.access import Role
from common.lockdecl import ALL_SHARED, SOME_EXCLUSIVE, SOME_SHARED, LockRules, exclusive
from common.locks import LockLevel
from common.objects.kinds import AllocPolicy, DiskTemplate
from common.opcodes.base import OpCode
from common.opcodes.types import JsonObject, NonEmpty


@attrs.frozen(kw_only=True)
class OnGroup(OpCode):
    """The common base of opcodes that change one node group."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "group_name"
    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: exclusive("group_name")}

    group_name: NonEmpty


@attrs.frozen(kw_only=True)
class GroupParams(OnGroup):
    """The common base of opcodes that set the parameters of a node group."""

    alloc_policy: AllocPolicy | None = None
    ndparams: JsonObject | None = None
    diskparams: Mapping[DiskTemplate, JsonObject] | None = None
    hv_state: JsonObject | None = None
    disk_state: JsonObject | None = None
    ipolicy: JsonObject | None = None


@attrs.frozen(kw_only=True)
class OpGroupAdd(GroupParams):
    """Make a node group."""


@attrs.frozen(kw_only=True)
class OpGroupAssignNodes(OnGroup):
    """Put nodes into a node group."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: SOME_EXCLUSIVE, LockLevel.NODE: exclusive("nodes")}

    force: bool = False
    nodes: tuple[NonEmpty, ...]
    node_uuids: tuple[NonEmpty, ...] | None = None


@attrs.frozen(kw_only=True)
class OpGroupSetParams(GroupParams):
    """Change a node group's parameters; unset parameters keep their values."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: exclusive("group_name"), LockLevel.INSTANCE: SOME_EXCLUSIVE}


@attrs.frozen(kw_only=True)
class OpGroupRemove(OnGroup):
    """Remove an empty node group."""


@attrs.frozen(kw_only=True)
class OpGroupRename(OnGroup):
    """Give a node group another name."""

    SUMMARY: ClassVar[str | None] = None

    new_name: NonEmpty


@attrs.frozen(kw_only=True)
class OpGroupEvacuate(OpCode):
    """Submit the jobs that move all instances out of a node group."""

    SUMMARY: ClassVar[str | None] = "group_name"
    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: ALL_SHARED,
        LockLevel.INSTANCE: SOME_SHARED,
        LockLevel.NODE: SOME_SHARED,
    }

    group_name: NonEmpty
    early_release: bool = False
    iallocator: NonEmpty | None = None
    target_groups: tuple[NonEmpty, ...] | None = None
    sequential: bool = False
    force_failover: bool = False
