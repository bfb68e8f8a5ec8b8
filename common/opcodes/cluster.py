"""Opcodes that concern the whole cluster.

Source: opcodes.md 4, 6.2.
"""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from common.access import Role
from common.lockdecl import ALL_EXCLUSIVE, ALL_SHARED, SOME_SHARED, LockRules, Scope, exclusive, shared
from common.locks import LockLevel
from common.objects.kinds import DiskTemplate, Hypervisor, SshKeyType
from common.opcodes.base import OpCode
from common.opcodes.types import (
    PRIVATE,
    JsonObject,
    ListAction,
    NicParams,
    NonEmpty,
    OptionalCheck,
    Positive,
    VerifyError,
    Whole,
)


@attrs.frozen(kw_only=True)
class OpClusterPostInit(OpCode):
    """Run the hooks that follow the making of a cluster."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    TAKES_BIG_LOCK: ClassVar[bool] = True


@attrs.frozen(kw_only=True)
class OpClusterDestroy(OpCode):
    """Dissolve the cluster."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    TAKES_BIG_LOCK: ClassVar[bool] = True


@attrs.frozen(kw_only=True)
class OpClusterQuery(OpCode):
    """Tell the cluster's parameters."""


@attrs.frozen(kw_only=True)
class Verification(OpCode):
    """The common base of opcodes that verify."""

    debug_simulate_errors: bool = False
    error_codes: bool = False
    # errors to be shown as warnings
    ignore_errors: tuple[VerifyError, ...] = ()
    verbose: bool = False


@attrs.frozen(kw_only=True)
class OpClusterVerify(Verification):
    """Submit the jobs that verify the cluster."""

    skip_checks: tuple[OptionalCheck, ...] = ()
    # name of the only node group to verify
    group_name: NonEmpty | None = None
    verify_clutter: bool = False


@attrs.frozen(kw_only=True)
class OpClusterVerifyConfig(Verification):
    """Verify the configuration."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: ALL_SHARED,
        LockLevel.NODEGROUP: ALL_SHARED,
        LockLevel.NODE: ALL_SHARED,
        LockLevel.NODE_RES: ALL_SHARED,
        LockLevel.NETWORK: ALL_SHARED,
    }


@attrs.frozen(kw_only=True)
class OpClusterVerifyGroup(Verification):
    """Verify the nodes and instances of a node group."""

    SUMMARY: ClassVar[str | None] = "group_name"
    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: shared("group_name"),
        LockLevel.INSTANCE: SOME_SHARED,
        LockLevel.NODE: SOME_SHARED,
    }

    group_name: NonEmpty
    skip_checks: tuple[OptionalCheck, ...] = ()
    verify_clutter: bool = False


@attrs.frozen(kw_only=True)
class OpClusterVerifyDisks(OpCode):
    """Submit the jobs that look for broken disks."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: shared("group_name", unset=Scope.ALL)}

    group_name: NonEmpty | None = None
    # since 3.1; not written unless given, because 3.0 refuses it
    is_strict: bool | None = None


@attrs.frozen(kw_only=True)
class OpGroupVerifyDisks(OpCode):
    """Look for broken disks in a node group."""

    SUMMARY: ClassVar[str | None] = "group_name"
    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: ALL_SHARED,
        LockLevel.INSTANCE: SOME_SHARED,
        LockLevel.NODE: SOME_SHARED,
    }

    group_name: NonEmpty
    # since 3.1; not written unless given, because 3.0 refuses it
    is_strict: bool | None = None


@attrs.frozen(kw_only=True)
class OpClusterRepairDiskSizes(OpCode):
    """Correct the recorded sizes of disks."""

    # empty: all instances
    instances: tuple[NonEmpty, ...] = ()

    def lock_rules(self) -> LockRules:
        return {
            LockLevel.INSTANCE: exclusive("instances", unset=Scope.ALL),
            LockLevel.NODE_RES: SOME_SHARED if self.instances else ALL_SHARED,
        }


@attrs.frozen(kw_only=True)
class OpClusterConfigQuery(OpCode):
    """Tell values of the configuration."""

    output_fields: tuple[NonEmpty, ...]


@attrs.frozen(kw_only=True)
class OpClusterRename(OpCode):
    """Give the cluster another name."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "name"
    TAKES_BIG_LOCK: ClassVar[bool] = True

    name: NonEmpty


@attrs.frozen(kw_only=True)
class OpClusterSetParams(OpCode):
    """Change the cluster's parameters; unset parameters keep their values."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: ALL_SHARED,
        LockLevel.NODEGROUP: ALL_SHARED,
        LockLevel.NODE: ALL_SHARED,
    }

    force: bool = False
    hv_state: JsonObject | None = None
    disk_state: JsonObject | None = None
    vg_name: str | None = None
    enabled_hypervisors: tuple[Hypervisor, ...] | None = None
    hvparams: Mapping[str, JsonObject] | None = None
    beparams: JsonObject | None = None
    os_hvp: Mapping[str, JsonObject] | None = None
    osparams: Mapping[str, JsonObject] | None = None
    osparams_private_cluster: Mapping[str, JsonObject] | None = attrs.field(default=None, repr=False, metadata=PRIVATE)
    diskparams: Mapping[DiskTemplate, JsonObject] | None = None
    candidate_pool_size: Positive | None = None
    max_running_jobs: Positive | None = None
    max_tracked_jobs: Positive | None = None
    uid_pool: tuple[tuple[int, int], ...] | None = None
    add_uids: tuple[tuple[int, int], ...] | None = None
    remove_uids: tuple[tuple[int, int], ...] | None = None
    maintain_node_health: bool | None = None
    prealloc_wipe_disks: bool | None = None
    nicparams: NicParams | None = None
    ndparams: JsonObject | None = None
    ipolicy: JsonObject | None = None
    drbd_helper: str | None = None
    default_iallocator: str | None = None
    default_iallocator_params: JsonObject | None = None
    mac_prefix: NonEmpty | None = None
    master_netdev: str | None = None
    master_netmask: Whole | None = None
    reserved_lvs: tuple[NonEmpty, ...] | None = None
    hidden_os: tuple[tuple[ListAction, NonEmpty], ...] | None = None
    blacklisted_os: tuple[tuple[ListAction, NonEmpty], ...] | None = None
    use_external_mip_script: bool | None = None
    enabled_disk_templates: tuple[DiskTemplate, ...] | None = None
    modify_etc_hosts: bool | None = None
    file_storage_dir: str | None = None
    shared_file_storage_dir: str | None = None
    gluster_storage_dir: str | None = None
    install_image: str | None = None
    instance_communication_network: str | None = None
    zeroing_image: str | None = None
    compression_tools: tuple[NonEmpty, ...] | None = None
    enabled_user_shutdown: bool | None = None
    enabled_data_collectors: Mapping[str, bool] | None = None
    data_collector_interval: Mapping[str, int] | None = None


@attrs.frozen(kw_only=True)
class OpClusterRedistConf(OpCode):
    """Send the configuration to all nodes again."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: ALL_SHARED}


@attrs.frozen(kw_only=True)
class OpClusterActivateMasterIp(OpCode):
    """Set up the master's address."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    TAKES_BIG_LOCK: ClassVar[bool] = True


@attrs.frozen(kw_only=True)
class OpClusterDeactivateMasterIp(OpCode):
    """Take down the master's address."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    TAKES_BIG_LOCK: ClassVar[bool] = True


@attrs.frozen(kw_only=True)
class OpClusterRenewCrypto(OpCode):
    """Renew certificates and keys of the nodes."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: ALL_EXCLUSIVE}

    node_certificates: bool = False
    renew_ssh_keys: bool = False
    ssh_key_type: SshKeyType | None = None
    ssh_key_bits: Positive | None = None
    verbose: bool = False
    debug: bool = False
