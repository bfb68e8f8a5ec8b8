"""Opcodes that make instances, change and remove them.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.lockdecl import ALL_EXCLUSIVE, ALL_SHARED, SOME_EXCLUSIVE, SOME_SHARED, LevelRule, LockRules, exclusive
from common.locks import LockLevel
from common.objects.kinds import DiskTemplate, Hypervisor
from common.opcodes.base import OpCode
from common.opcodes.structures import Change, DiskParams, NicParams, of_one_form
from common.opcodes.types import (
    PRIVATE,
    SECRET,
    CreationMode,
    FileDriver,
    JsonList,
    JsonObject,
    NonEmpty,
    Positive,
    Whole,
)


@attrs.frozen(kw_only=True)
class OnInstance(OpCode):
    """The common base of opcodes on one existing instance."""

    SUMMARY: ClassVar[str | None] = "instance_name"

    instance_name: str
    instance_uuid: NonEmpty | None = None


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

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name")}

    force_variant: bool = False
    os_type: NonEmpty | None = None
    osparams: JsonObject | None = None
    osparams_private: JsonObject | None = attrs.field(default=None, repr=False, metadata=PRIVATE)
    osparams_secret: JsonObject | None = attrs.field(default=None, repr=False, metadata=SECRET)


@attrs.frozen(kw_only=True)
class OpInstanceRemove(OnInstance):
    """Remove an instance with its disks."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: SOME_EXCLUSIVE,
        LockLevel.NODE_RES: SOME_EXCLUSIVE,
    }

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

    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: SOME_SHARED,
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: SOME_EXCLUSIVE,
        LockLevel.NODE_RES: SOME_EXCLUSIVE,
    }

    force: bool = False
    force_variant: bool = False
    ignore_ipolicy: bool = False
    nics: tuple[Change[NicParams], ...] = attrs.field(default=(), validator=of_one_form)
    disks: tuple[Change[DiskParams], ...] = attrs.field(default=(), validator=of_one_form)
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
