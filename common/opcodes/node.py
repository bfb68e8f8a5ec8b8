"""Opcodes on nodes.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.access import Role
from common.lockdecl import ALL_EXCLUSIVE, SOME_SHARED, LockRules, Scope, exclusive, shared
from common.locks import LockLevel
from common.opcodes.base import OpCode
from common.opcodes.types import (
    EvacuationMode,
    JsonObject,
    MigrationMode,
    NonEmpty,
    Number,
    OutOfBandCommand,
    StorageType,
)


@attrs.frozen(kw_only=True)
class OnNode(OpCode):
    """The common base of opcodes on one existing node."""

    SUMMARY: ClassVar[str | None] = "node_name"

    node_name: NonEmpty
    node_uuid: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpOobCommand(OpCode):
    """Run a command of the out-of-band helper."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: ALL_EXCLUSIVE}

    # empty: all nodes
    node_names: tuple[NonEmpty, ...] = ()
    node_uuids: tuple[NonEmpty, ...] | None = None
    command: OutOfBandCommand
    # seconds
    timeout: int = 60
    ignore_status: bool = False
    # seconds between two nodes that are powered on
    power_delay: Number = 2.0


@attrs.frozen(kw_only=True)
class OpRestrictedCommand(OpCode):
    """Run one of the commands that nodes allow."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: shared("nodes")}

    use_locking: bool = False
    nodes: tuple[NonEmpty, ...]
    node_uuids: tuple[NonEmpty, ...] | None = None
    command: NonEmpty


@attrs.frozen(kw_only=True)
class OpNodeRemove(OnNode):
    """Take a node out of the cluster."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    TAKES_BIG_LOCK: ClassVar[bool] = True


@attrs.frozen(kw_only=True)
class OpNodeAdd(OpCode):
    """Add a node to the cluster."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "node_name"
    TAKES_BIG_LOCK: ClassVar[bool] = True

    node_name: NonEmpty
    hv_state: JsonObject | None = None
    disk_state: JsonObject | None = None
    primary_ip: NonEmpty | None = None
    secondary_ip: NonEmpty | None = None
    readd: bool = False
    group: NonEmpty | None = None
    master_capable: bool | None = None
    vm_capable: bool | None = None
    ndparams: JsonObject | None = None
    node_setup: bool = False


@attrs.frozen(kw_only=True)
class OpNodeQueryvols(OpCode):
    """Tell the logical volumes of nodes."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: shared("nodes", unset=Scope.ALL)}

    output_fields: tuple[NonEmpty, ...]
    # empty: all nodes
    nodes: tuple[NonEmpty, ...] = ()


@attrs.frozen(kw_only=True)
class OpNodeQueryStorage(OpCode):
    """Tell the storage units of nodes."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: shared("nodes", unset=Scope.ALL)}

    output_fields: tuple[NonEmpty, ...]
    storage_type: StorageType | None = None
    # empty: all nodes
    nodes: tuple[NonEmpty, ...] = ()
    name: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OnNodeStorage(OnNode):
    """The common base of opcodes that change a storage unit of a node."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: exclusive("node_name")}

    storage_type: StorageType
    name: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpNodeModifyStorage(OnNodeStorage):
    """Change a storage unit of a node."""

    changes: JsonObject


@attrs.frozen(kw_only=True)
class OpRepairNodeStorage(OnNodeStorage):
    """Repair a storage unit of a node."""

    ignore_consistency: bool = False


@attrs.frozen(kw_only=True)
class OpNodeSetParams(OnNode):
    """Change a node's parameters and roles; unset parameters keep their values."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN

    force: bool = False
    hv_state: JsonObject | None = None
    disk_state: JsonObject | None = None
    master_candidate: bool | None = None
    offline: bool | None = None
    drained: bool | None = None
    # whether other nodes become candidates if this one stops being one
    auto_promote: bool = False
    master_capable: bool | None = None
    vm_capable: bool | None = None
    secondary_ip: NonEmpty | None = None
    ndparams: JsonObject | None = None
    powered: bool | None = None

    def lock_rules(self) -> LockRules:
        nodes = ALL_EXCLUSIVE if self.may_promote_others else exclusive("node_name")
        rules = {LockLevel.NODE: nodes, LockLevel.NODE_RES: nodes}
        return rules | {LockLevel.INSTANCE: SOME_SHARED} if self.secondary_ip else rules

    @property
    def may_promote_others(self) -> bool:
        """Whether other nodes may become candidates in the place of this one."""
        leaves = self.offline or self.drained or self.master_candidate is False or self.master_capable is False
        return self.auto_promote and bool(leaves)


@attrs.frozen(kw_only=True)
class OpNodePowercycle(OnNode):
    """Power-cycle a node."""

    force: bool = False


@attrs.frozen(kw_only=True)
class OpNodeMigrate(OnNode):
    """Submit the jobs that migrate all primary instances of a node."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: shared("node_name")}

    mode: MigrationMode | None = None
    live: bool | None = None
    target_node: NonEmpty | None = None
    target_node_uuid: NonEmpty | None = None
    allow_runtime_changes: bool = True
    ignore_ipolicy: bool = False
    iallocator: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpNodeEvacuate(OnNode):
    """Submit the jobs that move instances off a node."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: SOME_SHARED,
        LockLevel.INSTANCE: SOME_SHARED,
        LockLevel.NODE: SOME_SHARED,
    }

    early_release: bool = False
    remote_node: NonEmpty | None = None
    remote_node_uuid: NonEmpty | None = None
    iallocator: NonEmpty | None = None
    mode: EvacuationMode
    ignore_soft_errors: bool | None = None
