"""Opcodes that start, stop and move instances.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar, Final

import attrs

from common.lockdecl import ALL_EXCLUSIVE, ALL_SHARED, SOME_EXCLUSIVE, LockRules, exclusive, shared
from common.locks import LockLevel
from common.objects.kinds import AdminStateSource
from common.opcodes.instance import OnInstance
from common.opcodes.types import JsonObject, MigrationMode, NonEmpty, RebootType, Whole

# rule for the target and the instance's own nodes, which no parameter names
_BOTH_NODES: Final = exclusive("target_node", and_others=True)
_MOVED: Final[LockRules] = {
    LockLevel.INSTANCE: exclusive("instance_name"),
    LockLevel.NODE: _BOTH_NODES,
    LockLevel.NODE_RES: _BOTH_NODES,
}


@attrs.frozen(kw_only=True)
class OpInstanceStartup(OnInstance):
    """Start an instance."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name"), LockLevel.NODE_RES: SOME_EXCLUSIVE}

    force: bool = False
    ignore_offline_nodes: bool = False
    hvparams: JsonObject = attrs.field(factory=dict)
    beparams: JsonObject = attrs.field(factory=dict)
    no_remember: bool = False
    startup_paused: bool = False
    shutdown_timeout: Whole = 120


@attrs.frozen(kw_only=True)
class OpInstanceShutdown(OnInstance):
    """Stop an instance."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name")}

    force: bool = False
    ignore_offline_nodes: bool = False
    # seconds
    timeout: Whole = 120
    no_remember: bool = False
    admin_state_source: AdminStateSource | None = None


@attrs.frozen(kw_only=True)
class OpInstanceReboot(OnInstance):
    """Restart an instance."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name")}

    shutdown_timeout: Whole = 120
    ignore_secondaries: bool = False
    reboot_type: RebootType


@attrs.frozen(kw_only=True)
class OpInstanceFailover(OnInstance):
    """Start an instance on another node after stopping it."""

    LOCKS: ClassVar[LockRules] = _MOVED

    shutdown_timeout: Whole = 120
    ignore_consistency: bool = False
    target_node: NonEmpty | None = None
    target_node_uuid: NonEmpty | None = None
    ignore_ipolicy: bool = False
    cleanup: bool = False
    iallocator: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpInstanceMigrate(OnInstance):
    """Move an instance to another node while it runs."""

    LOCKS: ClassVar[LockRules] = _MOVED

    mode: MigrationMode | None = None
    live: bool | None = None
    target_node: NonEmpty | None = None
    target_node_uuid: NonEmpty | None = None
    allow_runtime_changes: bool = True
    ignore_ipolicy: bool = False
    cleanup: bool = False
    iallocator: NonEmpty | None = None
    allow_failover: bool = False
    ignore_hvversions: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceMove(OnInstance):
    """Copy an instance's disks to another node and start it there."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: ALL_SHARED,
        LockLevel.NODE_RES: ALL_SHARED,
    }

    shutdown_timeout: Whole = 120
    ignore_ipolicy: bool = False
    target_node: NonEmpty
    target_node_uuid: NonEmpty | None = None
    compress: str = "none"
    ignore_consistency: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceChangeGroup(OnInstance):
    """Submit the jobs that move an instance to another node group."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: ALL_EXCLUSIVE,
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: ALL_EXCLUSIVE,
    }

    early_release: bool = False
    iallocator: NonEmpty | None = None
    target_groups: tuple[NonEmpty, ...] | None = None


@attrs.frozen(kw_only=True)
class OpInstanceConsole(OnInstance):
    """Tell how to reach an instance's console."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: shared("instance_name")}
