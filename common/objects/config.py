"""The whole configuration: the content of `config.data`.

Source: wconfd.md 7.2.
"""

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs
from attrs.converters import optional

from common.objects.filter import FilterRule
from common.objects.kinds import (
    AdminState,
    AdminStateSource,
    AllocPolicy,
    DiskMode,
    DiskTemplate,
    DiskUuid,
    FilterUuid,
    GroupUuid,
    Hypervisor,
    InstanceUuid,
    Mebibytes,
    NetworkUuid,
    NicMode,
    NodeUuid,
    SshKeyType,
    plain,
)
from common.validation import Checked

# The common fields of configuration objects, and the rules for writing their classes.
#
# A class lists its fields under their JSON names, so that the class is the list of keys:
#
#     name: str                        required: null or missing is an error
#     ip: str | None = None            optional: absent stays absent, and is not written back
#     tags: frozenset[str] = ...       has a default: written always, even if it was absent
#     ... = attrs.field(..., metadata=UNWRITTEN_DEFAULT)      the same, but written only if it differs
#
# Source: wconfd.md 7.1.


# JSON values by free names, such as the parameters of a hypervisor
Params = Mapping[str, object]

UNWRITTEN: Final = "gantry.unwritten"
UNWRITTEN_DEFAULT: Final = {UNWRITTEN: True}


def own_first(_: type, fields: list["attrs.Attribute[object]"]) -> list["attrs.Attribute[object]"]:
    """A field transformer: the class's own fields before the inherited ones, in the order of the files."""
    return sorted(fields, key=lambda field: field.inherited)  # type: ignore[attr-defined]  # lacks a stub


@attrs.frozen(kw_only=True)
class Entity:
    """An object with an id, a serial number that counts its changes, times and tags."""

    # seconds since the epoch; 0: not known
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    # number of changes, counted from 1
    serial_no: int
    tags: frozenset[str] = frozenset()


# The parameter groups of instances, network interfaces and nodes: full ones and partial ones.
#
# The cluster has a full group; node groups, nodes, instances and interfaces have partial ones, whose
# values override the cluster's.
#
# Source: wconfd.md 7.3, "Parameter groups".


F = TypeVar("F", bound=attrs.AttrsInstance)


@attrs.frozen(kw_only=True)
class BeParams:
    """The resources that a hypervisor gives an instance."""

    minmem: Mebibytes
    maxmem: Mebibytes
    vcpus: int
    auto_balance: bool
    always_failover: bool
    spindle_use: int


@attrs.frozen(kw_only=True)
class PartialBeParams:
    minmem: Mebibytes | None = None
    maxmem: Mebibytes | None = None
    vcpus: int | None = None
    auto_balance: bool | None = None
    always_failover: bool | None = None
    spindle_use: int | None = None


@attrs.frozen(kw_only=True)
class NicConnection:
    """How a network interface is connected."""

    mode: NicMode
    link: str
    vlan: str


@attrs.frozen(kw_only=True)
class PartialNicParams:
    mode: NicMode | None = None
    link: str | None = None
    vlan: str | None = None


@attrs.frozen(kw_only=True)
class NdParams:
    """The properties of a node."""

    oob_program: str
    spindle_count: int
    exclusive_storage: bool
    ovs: bool
    ovs_name: str
    ovs_link: str
    ssh_port: int
    cpu_speed: float = attrs.field(converter=plain)


@attrs.frozen(kw_only=True)
class PartialNdParams:
    oob_program: str | None = None
    spindle_count: int | None = None
    exclusive_storage: bool | None = None
    ovs: bool | None = None
    ovs_name: str | None = None
    ovs_link: str | None = None
    ssh_port: int | None = None
    cpu_speed: float | None = attrs.field(default=None, converter=optional(plain))


def filled(full: F, partial: attrs.AttrsInstance) -> F:
    """Return the full group with the values of the partial one where it has any."""
    given = {field.name: getattr(partial, field.name) for field in attrs.fields(type(partial))}
    changes = {name: value for name, value in given.items() if value is not None}
    return attrs.evolve(full, **changes)  # type: ignore[misc]  # the plugin does not see through the bound


# Instance policies: the sizes that instances may have. In JSON the keys have hyphens.
#
# Source: wconfd.md 7.3, "Parameter groups".


@attrs.frozen(kw_only=True)
class Ispec:
    """A size of an instance; memory and disk in MiB."""

    memory_size: int
    disk_size: int
    disk_count: int
    cpu_count: int
    nic_count: int
    spindle_use: int


@attrs.frozen(kw_only=True)
class PartialIspec:
    memory_size: int | None = None
    disk_size: int | None = None
    disk_count: int | None = None
    cpu_count: int | None = None
    nic_count: int | None = None
    spindle_use: int | None = None


@attrs.frozen(kw_only=True)
class MinMax:
    """One range of allowed sizes."""

    min: Ispec
    max: Ispec


@attrs.frozen(kw_only=True)
class Ipolicy:
    """The policy of the cluster."""

    # ranges of sizes; an instance must lie in one of them
    minmax: tuple[MinMax, ...]
    std: Ispec
    spindle_ratio: float = attrs.field(converter=plain)
    vcpu_ratio: float = attrs.field(converter=plain)
    disk_templates: tuple[DiskTemplate, ...]


@attrs.frozen(kw_only=True)
class PartialIpolicy:
    """The policy of a group; missing values are the cluster's."""

    minmax: tuple[MinMax, ...] | None = None
    std: PartialIspec | None = None
    spindle_ratio: float | None = attrs.field(default=None, converter=optional(plain))
    vcpu_ratio: float | None = attrs.field(default=None, converter=optional(plain))
    disk_templates: tuple[DiskTemplate, ...] | None = None


# A disk, or a forthcoming one; disks are nested (a mirror has two children).
#
# Source: wconfd.md 7.3.


# value that identifies the disk to its storage; its shape depends on the type
LogicalId = tuple[Any, ...]

_FILE_DRIVERS: Final = ("loop", "blktap", "blktap2")


def _is_pair(value: LogicalId) -> bool:
    return len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_file(value: LogicalId) -> bool:
    return _is_pair(value) and value[0] in _FILE_DRIVERS


def _is_blockdev(value: LogicalId) -> bool:
    return _is_pair(value) and value[0] == "manual"


def _is_drbd(value: LogicalId) -> bool:
    kinds = (str, str, int, int, int, str)
    return len(value) == len(kinds) and all(type(part) is kind for part, kind in zip(value, kinds, strict=True))


_FILE_SHAPE: Final = (_is_file, "[loop|blktap|blktap2, path]")
_SHAPES: Final[Mapping[DiskTemplate, tuple[Callable[[LogicalId], bool], str]]] = {
    DiskTemplate.PLAIN: (_is_pair, "[volume group, volume]"),
    DiskTemplate.DRBD: (_is_drbd, "[node A, node B, port, minor A, minor B, secret]"),
    DiskTemplate.FILE: _FILE_SHAPE,
    DiskTemplate.SHAREDFILE: _FILE_SHAPE,
    DiskTemplate.GLUSTER: _FILE_SHAPE,
    DiskTemplate.BLOCKDEV: (_is_blockdev, "['manual', path]"),
    DiskTemplate.RBD: (_is_pair, "[string, string]"),
    DiskTemplate.EXT: (_is_pair, "[provider, name]"),
}


def _check_logical_id(disk: "Disk | ForthcomingDisk") -> None:
    if disk.dev_type is None or disk.logical_id is None:
        return
    shape = _SHAPES.get(disk.dev_type)
    if shape is None:
        raise ValueError(f"expected a type of disk that has a place, got {disk.dev_type.value!r}")
    fits, form = shape
    if not fits(disk.logical_id):
        raise ValueError(f"expected as logical_id of {disk.dev_type.value} {form}, got {list(disk.logical_id)!r}")


@attrs.frozen(kw_only=True)
class Disk:
    dev_type: DiskTemplate
    logical_id: LogicalId
    children: tuple["AnyDisk", ...] = ()
    nodes: tuple[NodeUuid, ...] = ()
    # name of the disk for the instance: disk/0, disk/1, ...
    iv_name: str = ""
    # MiB
    size: int
    mode: DiskMode = DiskMode.READ_WRITE
    name: str | None = None
    spindles: int | None = None
    params: Params | None = None
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    serial_no: int

    def __attrs_post_init__(self) -> None:
        _check_logical_id(self)


@attrs.frozen(kw_only=True)
class ForthcomingDisk:
    # always true: this key marks a forthcoming disk in the file
    forthcoming: bool = True
    dev_type: DiskTemplate | None = None
    logical_id: LogicalId | None = None
    children: tuple["AnyDisk", ...] = ()
    nodes: tuple[NodeUuid, ...] = ()
    iv_name: str = ""
    size: int | None = None
    mode: DiskMode = DiskMode.READ_WRITE
    name: str | None = None
    spindles: int | None = None
    params: Params | None = None
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    serial_no: int

    def __attrs_post_init__(self) -> None:
        _check_logical_id(self)


AnyDisk = Disk | ForthcomingDisk
attrs.resolve_types(Disk)
attrs.resolve_types(ForthcomingDisk)


# A network interface of an instance.
#
# Source: wconfd.md 7.3.


@attrs.frozen(kw_only=True)
class Nic:
    mac: str
    ip: str | None = None
    nicparams: PartialNicParams
    network: NetworkUuid | None = None
    name: str | None = None
    uuid: str


# An instance: a virtual machine, or a forthcoming one.
#
# A *forthcoming* instance reserves the place of a machine that does not exist yet: it has an id and a
# serial number, and all other fields are optional.
#
# Source: wconfd.md 7.3.


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Instance(Entity):
    name: str
    primary_node: NodeUuid
    os: str
    hypervisor: Hypervisor
    hvparams: Params = attrs.Factory(dict)
    beparams: PartialBeParams = attrs.Factory(PartialBeParams)
    osparams: Mapping[str, str] = attrs.Factory(dict)
    osparams_private: Mapping[str, str] = attrs.Factory(dict)
    admin_state: AdminState
    admin_state_source: AdminStateSource
    nics: tuple[Nic, ...] = ()
    disks: tuple[DiskUuid, ...] = ()
    disks_active: bool
    network_port: int | None = None


@attrs.frozen(kw_only=True, field_transformer=own_first)
class ForthcomingInstance(Entity):
    # always true: this key marks a forthcoming instance in the file
    forthcoming: bool = True
    name: str | None = None
    primary_node: NodeUuid | None = None
    os: str | None = None
    hypervisor: Hypervisor | None = None
    hvparams: Params = attrs.Factory(dict)
    beparams: PartialBeParams = attrs.Factory(PartialBeParams)
    osparams: Mapping[str, str] = attrs.Factory(dict)
    osparams_private: Mapping[str, str] = attrs.Factory(dict)
    admin_state: AdminState | None = None
    admin_state_source: AdminStateSource | None = None
    nics: tuple[Nic, ...] = ()
    disks: tuple[DiskUuid, ...] = ()
    disks_active: bool | None = None
    network_port: int | None = None


AnyInstance = Instance | ForthcomingInstance


# A network: a range of addresses, and the reserved ones among them.
#
# Source: wconfd.md 7.3 and 2.4 (pools).


def _not_empty(_: object, field: Checked, value: str) -> None:
    if not value:
        raise ValueError(f"expected a {field.name} that is not empty, got ''")


def _is_cidr(_: object, __: object, value: str) -> None:
    address, slash, length = value.partition("/")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        slash = ""
    if not slash or not length.isdecimal() or int(length) > 32:
        raise ValueError(f"expected an IPv4 network such as '192.0.2.0/24', got {value!r}")


def _is_ipv4(_: object, __: object, value: str | None) -> None:
    if value is None:
        return
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(f"expected an IPv4 address, got {value!r}") from None


def _is_pool(_: object, __: object, value: str | None) -> None:
    if value is not None and value.strip("01"):
        raise ValueError(f"expected a string of 0 and 1, got {value[:40]!r}")


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Network(Entity):
    name: str = attrs.field(validator=_not_empty)
    mac_prefix: str | None = None
    network: str = attrs.field(validator=_is_cidr)
    network6: str | None = None
    gateway: str | None = attrs.field(default=None, validator=_is_ipv4)
    gateway6: str | None = None
    # one character for each address of the range, 1 if it is reserved: by an instance, or from outside
    reservations: str | None = attrs.field(default=None, validator=_is_pool)
    ext_reservations: str | None = attrs.field(default=None, validator=_is_pool)


# A node: a machine of the cluster.
#
# Source: wconfd.md 7.3.


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Node(Entity):
    name: str
    primary_ip: str
    secondary_ip: str
    # at most one of these three is true
    master_candidate: bool
    offline: bool
    drained: bool
    group: GroupUuid
    master_capable: bool
    vm_capable: bool
    ndparams: PartialNdParams
    powered: bool
    hv_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)
    disk_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)


# A node group: nodes with a common policy.
#
# Source: wconfd.md 7.3.


@attrs.frozen(kw_only=True, field_transformer=own_first)
class NodeGroup(Entity):
    name: str
    # not maintained: each node's `group` decides
    members: tuple[NodeUuid, ...] = ()
    ndparams: PartialNdParams
    alloc_policy: AllocPolicy
    ipolicy: PartialIpolicy
    diskparams: Mapping[DiskTemplate, Params]
    # networks connected to the group, and the parameters of the connection
    networks: Mapping[NetworkUuid, PartialNicParams]
    hv_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)
    disk_state_static: Params = attrs.field(factory=dict, metadata=UNWRITTEN_DEFAULT)


# The cluster: its name, its master, and the parameters that all other objects inherit.
#
# Source: wconfd.md 7.3.


@attrs.frozen(kw_only=True)
class DataCollector:
    active: bool
    # microseconds
    interval: int


@attrs.frozen(kw_only=True, field_transformer=own_first)
class Cluster(Entity):
    rsahostkeypub: str
    dsahostkeypub: str | None = None
    highest_used_port: int
    # ports that were used and are free again
    tcpudp_port_pool: tuple[int, ...]
    mac_prefix: str
    volume_group_name: str | None = None
    reserved_lvs: tuple[str, ...]
    drbd_usermode_helper: str | None = None
    # "" while the cluster is being destroyed
    master_node: NodeUuid
    master_ip: str
    master_netdev: str
    master_netmask: int
    use_external_mip_script: bool
    cluster_name: str
    file_storage_dir: str
    shared_file_storage_dir: str
    gluster_storage_dir: str
    enabled_hypervisors: tuple[Hypervisor, ...]
    hvparams: Mapping[Hypervisor, Params]
    # operating system -> hypervisor -> parameters
    os_hvp: Mapping[str, Mapping[Hypervisor, Params]]
    # profile -> parameters; "default" is the only profile
    beparams: Mapping[str, BeParams]
    osparams: Mapping[str, Mapping[str, str]]
    osparams_private_cluster: Mapping[str, Mapping[str, str]]
    nicparams: Mapping[str, NicConnection]
    ndparams: NdParams
    diskparams: Mapping[DiskTemplate, Params]
    candidate_pool_size: int
    modify_etc_hosts: bool
    modify_ssh_setup: bool
    maintain_node_health: bool
    # ranges, both ends included
    uid_pool: tuple[tuple[int, int], ...]
    default_iallocator: str
    default_iallocator_params: Mapping[str, object]
    hidden_os: tuple[str, ...]
    blacklisted_os: tuple[str, ...]
    # the number of the address family: 2 for IPv4, 10 for IPv6
    primary_ip_family: int
    prealloc_wipe_disks: bool
    ipolicy: Ipolicy
    hv_state_static: Params = attrs.Factory(dict)
    disk_state_static: Params = attrs.Factory(dict)
    enabled_disk_templates: tuple[DiskTemplate, ...]
    # digests of the certificates of the master candidates
    candidate_certs: Mapping[NodeUuid, str]
    max_running_jobs: int
    max_tracked_jobs: int
    install_image: str
    instance_communication_network: str
    zeroing_image: str
    compression_tools: tuple[str, ...]
    enabled_user_shutdown: bool
    data_collectors: Mapping[str, DataCollector]
    ssh_key_type: SshKeyType
    ssh_key_bits: int


# version of the format: major * 1000000 + minor * 10000
CONFIG_VERSION: Final = 3_000_000


@attrs.frozen(kw_only=True)
class Config:
    version: int
    cluster: Cluster
    nodes: Mapping[NodeUuid, Node]
    nodegroups: Mapping[GroupUuid, NodeGroup]
    instances: Mapping[InstanceUuid, AnyInstance]
    networks: Mapping[NetworkUuid, Network]
    disks: Mapping[DiskUuid, AnyDisk]
    filters: Mapping[FilterUuid, FilterRule]
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    # number that grows with every effective change of any object
    serial_no: int
