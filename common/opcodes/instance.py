"""Opcodes that make instances, change and remove them.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar, Final

import attrs

from common.lockdecl import (
    ALL_EXCLUSIVE,
    ALL_SHARED,
    SOME_EXCLUSIVE,
    SOME_SHARED,
    LevelRule,
    LockRules,
    exclusive,
    shared,
)
from common.locks import LockLevel
from common.objects.kinds import AdminStateSource, DiskTemplate, Hypervisor
from common.opcodes.base import OpCode
from common.opcodes.types import (
    PRIVATE,
    SECRET,
    CreationMode,
    DeviceChange,
    DiskIndex,
    DiskParams,
    ExportMode,
    ExportTarget,
    FileDriver,
    JsonList,
    JsonObject,
    MigrationMode,
    NicParams,
    NonEmpty,
    Number,
    Positive,
    RebootType,
    RecreatedDisk,
    ReplaceDisksMode,
    Whole,
    all_or_none_changed,
    of_one_form,
)


@attrs.frozen(kw_only=True)
class OnInstance(OpCode):
    """The common base of opcodes on one existing instance."""

    SUMMARY: ClassVar[str | None] = "instance_name"
    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name")}

    instance_name: str
    instance_uuid: NonEmpty | None = None


# rule for an instance and its nodes, which no parameter names
_WITH_NODES: Final[LockRules] = {
    LockLevel.INSTANCE: exclusive("instance_name"),
    LockLevel.NODE: SOME_EXCLUSIVE,
    LockLevel.NODE_RES: SOME_EXCLUSIVE,
}


@attrs.frozen(kw_only=True)
class OpInstanceCreate(OpCode):
    """Create an instance, from scratch or from an export."""

    SUMMARY: ClassVar[str | None] = "instance_name"

    instance_name: str
    force_variant: bool = False
    wait_for_sync: bool = True
    # default of Ganeti 3.0; false since 3.1, as ip_check
    name_check: bool = True
    ignore_ipolicy: bool = False
    opportunistic_locking: bool = False
    beparams: JsonObject = attrs.field(factory=dict)
    disks: tuple[DiskParams, ...]
    disk_template: DiskTemplate | None = None
    group_name: NonEmpty | None = None
    file_driver: FileDriver | None = None
    file_storage_dir: NonEmpty | None = None
    hvparams: JsonObject = attrs.field(factory=dict)
    hypervisor: Hypervisor | None = None
    iallocator: NonEmpty | None = None
    identify_defaults: bool = False
    ip_check: bool = True
    conflicts_check: bool = True
    mode: CreationMode
    nics: tuple[NicParams, ...]
    no_install: bool | None = None
    osparams: JsonObject = attrs.field(factory=dict)
    osparams_private: JsonObject | None = attrs.field(default=None, repr=False, metadata=PRIVATE)
    osparams_secret: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)
    os_type: NonEmpty | None = None
    pnode: NonEmpty | None = None
    pnode_uuid: NonEmpty | None = None
    snode: NonEmpty | None = None
    snode_uuid: NonEmpty | None = None
    source_handshake: JsonList | None = None
    source_instance_name: NonEmpty | None = None
    # seconds
    source_shutdown_timeout: Whole = 120
    source_x509_ca: NonEmpty | None = None
    src_node: NonEmpty | None = None
    src_node_uuid: NonEmpty | None = None
    src_path: NonEmpty | None = None
    compress: str = "none"
    start: bool = True
    forthcoming: bool = False
    commit: bool = False
    tags: tuple[NonEmpty, ...] = ()
    instance_communication: bool = False
    helper_startup_timeout: int | None = None
    helper_shutdown_timeout: int | None = None

    def lock_rules(self) -> LockRules:
        nodes = self._node_rule()
        groups = ALL_SHARED if nodes is ALL_EXCLUSIVE else SOME_SHARED
        return {
            LockLevel.INSTANCE: exclusive(new=("instance_name",)),
            LockLevel.NODEGROUP: groups,
            LockLevel.NODE: nodes,
            LockLevel.NODE_RES: nodes,
        }

    def _node_rule(self) -> LevelRule:
        if self.iallocator is None or self.pnode is not None:
            return exclusive("pnode", "snode")
        return SOME_EXCLUSIVE if self.opportunistic_locking else ALL_EXCLUSIVE


@attrs.frozen(kw_only=True)
class OpInstanceMultiAlloc(OpCode):
    """Submit the jobs that create several instances, placed by one call of an allocator."""

    opportunistic_locking: bool = False
    iallocator: NonEmpty | None = None
    # INSTANCE_CREATE opcodes as JSON objects
    instances: JsonList = attrs.field(factory=list, repr=False)

    def lock_rules(self) -> LockRules:
        nodes = ALL_SHARED if self.iallocator is not None and not self.opportunistic_locking else SOME_SHARED
        return {LockLevel.NODE: nodes, LockLevel.NODE_RES: nodes}


@attrs.frozen(kw_only=True)
class OpInstanceReinstall(OnInstance):
    """Install the operating system of an instance again."""

    force_variant: bool = False
    os_type: NonEmpty | None = None
    osparams: JsonObject | None = None
    osparams_private: JsonObject | None = attrs.field(default=None, repr=False, metadata=PRIVATE)
    osparams_secret: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)


@attrs.frozen(kw_only=True)
class OpInstanceRemove(OnInstance):
    """Remove an instance with its disks."""

    LOCKS: ClassVar[LockRules] = _WITH_NODES

    shutdown_timeout: Whole = 120
    ignore_failures: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceRename(OpCode):
    """Give an instance another name."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name", new=("new_name",))}

    instance_name: str
    instance_uuid: NonEmpty | None = None
    new_name: NonEmpty
    # default of Ganeti 3.0; false since 3.1, as ip_check
    name_check: bool = True
    ip_check: bool = True


@attrs.frozen(kw_only=True)
class OpInstanceQueryData(OpCode):
    """Tell everything about instances."""

    use_locking: bool = False
    # empty: all instances
    instances: tuple[NonEmpty, ...] = ()
    # whether to use only the configuration
    static: bool = False

    def lock_rules(self) -> LockRules:
        if self.static and not self.use_locking:
            return {}
        return {
            LockLevel.NODEGROUP: SOME_SHARED,
            LockLevel.INSTANCE: ALL_SHARED,
            LockLevel.NODE: SOME_SHARED,
            LockLevel.NODE_RES: SOME_SHARED,
        }


@attrs.frozen(kw_only=True)
class OpInstanceSetParams(OnInstance):
    """Change an instance's parameters; unset parameters keep their values."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: SOME_SHARED, **_WITH_NODES}

    force: bool = False
    force_variant: bool = False
    ignore_ipolicy: bool = False
    nics: tuple[DeviceChange[NicParams], ...] = attrs.field(default=(), validator=of_one_form)
    disks: tuple[DeviceChange[DiskParams], ...] = attrs.field(default=(), validator=of_one_form)
    beparams: JsonObject = attrs.field(factory=dict)
    # MiB
    runtime_mem: Positive | None = None
    hvparams: JsonObject = attrs.field(factory=dict)
    disk_template: DiskTemplate | None = None
    ext_params: JsonObject = attrs.field(factory=dict)
    file_driver: FileDriver | None = None
    file_storage_dir: NonEmpty | None = None
    pnode: NonEmpty | None = None
    pnode_uuid: NonEmpty | None = None
    remote_node: NonEmpty | None = None
    remote_node_uuid: NonEmpty | None = None
    iallocator: NonEmpty | None = None
    os_name: NonEmpty | None = None
    osparams: JsonObject = attrs.field(factory=dict)
    osparams_private: JsonObject | None = attrs.field(default=None, repr=False, metadata=PRIVATE)
    wait_for_sync: bool = True
    offline: bool | None = None
    conflicts_check: bool = True
    # default of Ganeti 3.0; true since 3.1
    hotplug: bool = False
    instance_communication: bool | None = None
    # Ganeti 3.0 only
    hotplug_if_possible: bool = False


# Opcodes that start, stop and move instances.
#
# Source: opcodes.md 4, 6.2.


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

    force: bool = False
    ignore_offline_nodes: bool = False
    # seconds
    timeout: Whole = 120
    no_remember: bool = False
    admin_state_source: AdminStateSource | None = None


@attrs.frozen(kw_only=True)
class OpInstanceReboot(OnInstance):
    """Restart an instance."""

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


# Opcodes on the disks of an instance.
#
# Source: opcodes.md 4, 6.2.


@attrs.frozen(kw_only=True)
class OpInstanceReplaceDisks(OnInstance):
    """Replace disks of a mirrored instance."""

    early_release: bool = False
    ignore_ipolicy: bool = False
    mode: ReplaceDisksMode
    disks: tuple[DiskIndex, ...] = ()
    remote_node: NonEmpty | None = None
    remote_node_uuid: NonEmpty | None = None
    iallocator: NonEmpty | None = None

    def lock_rules(self) -> LockRules:
        return {**_WITH_NODES, LockLevel.NODEGROUP: SOME_SHARED} if self.iallocator is not None else _WITH_NODES


@attrs.frozen(kw_only=True)
class OpInstanceActivateDisks(OnInstance):
    """Make an instance's disks usable on its node."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name"), LockLevel.NODE: SOME_EXCLUSIVE}

    ignore_size: bool = False
    wait_for_sync: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceDeactivateDisks(OnInstance):
    """Shut an instance's disks down."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: ALL_EXCLUSIVE, LockLevel.NODE: SOME_EXCLUSIVE}

    force: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceRecreateDisks(OnInstance):
    """Create an instance's disks again."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: SOME_SHARED, **_WITH_NODES}

    # empty: all disks
    disks: tuple[RecreatedDisk, ...] = attrs.field(default=(), validator=all_or_none_changed)
    nodes: tuple[NonEmpty, ...] = ()
    node_uuids: tuple[NonEmpty, ...] | None = None
    iallocator: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpInstanceGrowDisk(OnInstance):
    """Make a disk larger."""

    LOCKS: ClassVar[LockRules] = _WITH_NODES

    wait_for_sync: bool = True
    disk: DiskIndex
    # MiB to add, or the new size if `absolute`
    amount: Whole
    absolute: bool = False
    ignore_ipolicy: bool = False


# Opcodes on exports of instances.
#
# Source: opcodes.md 4, 6.2.


@attrs.frozen(kw_only=True)
class OpBackupPrepare(OnInstance):
    """Tell what the export of an instance needs."""

    mode: ExportMode


@attrs.frozen(kw_only=True)
class OpBackupExport(OnInstance):
    """Export an instance, to a node or to another cluster."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name"), LockLevel.NODE: ALL_EXCLUSIVE}

    compress: str = "none"
    shutdown_timeout: Whole = 120
    # name, or a list for a remote export
    target_node: ExportTarget
    target_node_uuid: NonEmpty | None = None
    shutdown: bool = True
    remove_instance: bool = False
    ignore_remove_failures: bool = False
    mode: ExportMode = ExportMode.LOCAL
    x509_key_name: JsonList | None = None
    destination_x509_ca: NonEmpty | None = None
    zero_free_space: bool = False
    zeroing_timeout_fixed: int | None = None
    zeroing_timeout_per_mib: Number | None = None
    long_sleep: bool = False


@attrs.frozen(kw_only=True)
class OpBackupRemove(OnInstance):
    """Remove the exports of an instance."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: ALL_EXCLUSIVE}
