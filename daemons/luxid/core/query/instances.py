"""The fields of instances, without those of their disks, interfaces and hypervisors, and those that are live.

Source: luxid.md 7.6, "instance".
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

import attrs

from common.objects.codec import to_json
from common.objects.config import (
    AnyDisk,
    AnyInstance,
    BeParams,
    ForthcomingInstance,
    Nic,
    NicConnection,
    Node,
    NodeGroup,
    filled,
)
from common.objects.index import ConfigIndex
from common.objects.kinds import AdminState, AdminStateSource, DiskTemplate, Hypervisor, NicMode
from daemons.luxid.core.query.engine import (
    CellStatus,
    FieldKind,
    Need,
    NoFacts,
    QueryField,
    Things,
    host_aliases,
    or_no_data,
    or_unavailable,
    status_without,
)
from daemons.luxid.core.query.objects import ObjectRow, entity_fields

# The parameters of hypervisors as fields of instances: one for each that an instance may set.
#
# Source: luxid.md 7.6, "instance", "hv/*".


R = TypeVar("R")

# fmt: off
_BOOLS: Final = (
    "acpi", "pae", "serial_console", "spice_playback_compression", "spice_use_tls", "spice_use_vdagent",
    "use_bootloader", "use_chroot", "use_guest_agent", "use_localtime", "user_shutdown", "vhost_net", "viridian",
    "vnc_tls", "vnc_x509_verify", "vnet_hdr",
)
_NUMBERS: Final = (
    "cpu_cap", "cpu_cores", "cpu_sockets", "cpu_threads", "cpu_weight", "kvm_pci_reservations",
    "migration_downtime", "num_ttys", "serial_speed", "spice_ip_version", "startup_timeout", "virtio_net_queues",
)
_OTHERS: Final = (
    "blockdev_prefix", "boot_order", "bootloader_args", "bootloader_path", "cdrom2_image_path", "cdrom_disk_type",
    "cdrom_image_path", "cpu_mask", "cpu_type", "cpuid", "device_model", "devices", "disk_aio", "disk_cache",
    "disk_discard", "disk_type", "drop_capabilities", "extra_cgroups", "extra_config", "floppy_image_path",
    "init_script", "initrd_path", "kernel_args", "kernel_path", "keymap", "kvm_extra", "kvm_flag", "kvm_path",
    "machine_version", "mem_path", "migration_caps", "nic_type", "pci_pass", "reboot_behavior", "root_path",
    "scsi_controller_type", "security_domain", "security_model", "soundhw", "spice_bind", "spice_image_compression",
    "spice_jpeg_wan_compression", "spice_password_file", "spice_streaming_video", "spice_tls_ciphers",
    "spice_zlib_glz_wan_compression", "usb_devices", "usb_mouse", "vga", "vif_script", "vif_type",
    "vnc_bind_address", "vnc_password_file", "vnc_x509_path",
)
# titles that differ from the name
_TITLES: Final = {
    "acpi": "ACPI", "boot_order": "Boot_order", "cdrom_image_path": "CDROM_image_path", "cpu_type": "cpu_type",
    "disk_type": "Disk_type", "initrd_path": "Initrd_path", "kernel_path": "Kernel_path", "nic_type": "NIC_type",
    "pae": "PAE", "pci_pass": "pci_pass", "vnc_bind_address": "VNC_bind_address",
}
# fmt: on

NAMES: Final = tuple(sorted((*_BOOLS, *_NUMBERS, *_OTHERS)))
_KINDS: Final = {
    **dict.fromkeys(_BOOLS, FieldKind.BOOL),
    **dict.fromkeys(_NUMBERS, FieldKind.NUMBER),
    **dict.fromkeys(_OTHERS, FieldKind.OTHER),
}


def hv_fields(params: Callable[[R], Mapping[str, object]]) -> Iterable[QueryField[R]]:
    """A field for each parameter.

    Args:
        params: of an instance all parameters that its hypervisor has.
    """
    return [
        QueryField(
            f"hv/{name}",
            _TITLES.get(name, f"hv/{name}"),
            _KINDS[name],
            f"hypervisor parameter {name!r}; none if the hypervisor does not have it",
            _reader(params, name),
        )
        for name in NAMES
    ]


def _reader(params: Callable[[R], Mapping[str, object]], name: str) -> Callable[[R], object]:
    return lambda row: params(row).get(name, CellStatus.UNAVAILABLE)


# The parameters of an instance, with those of its operating system and the cluster where it sets none.
#
# Source: luxid.md 7.6, "instance".


_Row = ObjectRow[AnyInstance]
_HV_NAMES: Final = frozenset(NAMES)


def be_params(row: _Row) -> BeParams:
    return filled(row.config.config.cluster.beparams["default"], row.object.beparams)


def hv_params(row: _Row) -> dict[str, object]:
    """What an instance may set, with the values of the operating system and the cluster where it does not."""
    instance, cluster = row.object, row.config.config.cluster
    if instance.hypervisor is None:
        return dict(instance.hvparams)
    of_system = cluster.os_hvp.get(instance.os or "", {}).get(instance.hypervisor, {})
    every = {**cluster.hvparams.get(instance.hypervisor, {}), **of_system, **instance.hvparams}
    return {name: value for name, value in every.items() if name in _HV_NAMES}


def os_params(row: _Row) -> dict[str, str]:
    """Those of the operating system, then of its variant, then the instance's own; secret ones are not shown."""
    name, params = row.object.os or "", row.config.config.cluster.osparams
    return {**params.get(name.partition("+")[0], {}), **params.get(name, {}), **row.object.osparams}


# The disks of an instance as fields of it: all together, and one by one.
#
# Source: luxid.md 7.6, "instance".


_DiskRow = ObjectRow[AnyInstance]
_DiskField = QueryField[_DiskRow]

_DISKS: Final = 16
# MiB that a mirrored disk needs beside its data
_MIRROR_META: Final = 128
# their storage is the cluster's own
_CHARGED: Final = frozenset(
    {DiskTemplate.PLAIN, DiskTemplate.FILE, DiskTemplate.SHAREDFILE, DiskTemplate.GLUSTER, DiskTemplate.DRBD}
)

# name, title of one, title of all, kind of one, attribute, what it is
_DISK_ASPECTS: Final = (
    ("size", "Disk", "Disk_sizes", FieldKind.UNIT, "size", "size"),
    ("spindles", "DiskSpindles", "Disk_spindles", FieldKind.NUMBER, "spindles", "spindles"),
    ("name", "DiskName", "Disk_names", FieldKind.TEXT, "name", "name"),
    ("uuid", "DiskUUID", "Disk_UUIDs", FieldKind.TEXT, "uuid", "UUID"),
)


def disk_fields() -> Iterable[_DiskField]:
    """The fields about disks."""
    yield _DiskField("disk_template", "Disk_template", FieldKind.TEXT, "how its disks are stored", _template)
    yield _DiskField("disk_usage", "DiskUsage", FieldKind.UNIT, "storage that its disks take", _usage)
    yield _DiskField("disk.count", "Disks", FieldKind.NUMBER, "number of disks", lambda row: len(row.object.disks))
    for name, one, every, kind, attribute, doc in _DISK_ASPECTS:
        plural = name if name.endswith("s") else f"{name}s"
        yield _DiskField(f"disk.{plural}", every, FieldKind.OTHER, f"{doc} of each disk", _of_each_disk(attribute))
        for index in range(_DISKS):
            yield _DiskField(
                f"disk.{name}/{index}", f"{one}/{index}", kind, f"{doc} of disk {index}", _of_one_disk(attribute, index)
            )
    for index, old in enumerate(("sda_size", "sdb_size")):
        yield _DiskField(
            old,
            f"Disk/{index}",
            FieldKind.UNIT,
            f"size of disk {index}, under its old name",
            _of_one_disk("size", index),
        )


def _of_each_disk(attribute: str) -> Callable[[_DiskRow], object]:
    return lambda row: [getattr(disk, attribute) for disk in row.config.disks(row.object)]


def _of_one_disk(attribute: str, index: int) -> Callable[[_DiskRow], object]:
    def read(row: _DiskRow) -> object:
        disks = row.config.disks(row.object)
        return or_unavailable(getattr(disks[index], attribute)) if index < len(disks) else CellStatus.UNAVAILABLE

    return read


def _template(row: _DiskRow) -> str:
    templates = {disk.dev_type for disk in row.config.disks(row.object) if disk.dev_type is not None}
    if not templates:
        return DiskTemplate.DISKLESS.value
    return templates.pop().value if len(templates) == 1 else "mixed"


def _usage(row: _DiskRow) -> int:
    return sum(_disk_usage(disk) for disk in row.config.disks(row.object))


def _disk_usage(disk: AnyDisk) -> int:
    if disk.size is None or disk.dev_type not in _CHARGED:
        return 0
    return disk.size + (_MIRROR_META if disk.dev_type is DiskTemplate.DRBD else 0)


# The network interfaces of an instance as fields of it: all together, and one by one.
#
# Source: luxid.md 7.6, "instance".


_NicRow = ObjectRow[AnyInstance]
_NicField = QueryField[_NicRow]
_Read = Callable[[_NicRow, Nic], object]

_NICS: Final = 8


def _params(row: _NicRow, nic: Nic) -> NicConnection:
    return filled(row.config.config.cluster.nicparams["default"], nic.nicparams)


def _bridge(row: _NicRow, nic: Nic) -> str | None:
    params = _params(row, nic)
    return params.link if params.mode is NicMode.BRIDGED else None


def _network_name(row: _NicRow, nic: Nic) -> str | None:
    network = row.config.config.networks.get(nic.network) if nic.network is not None else None
    return network.name if network is not None else None


# name, title of one, name and title of all, what it is, how it is read (None: there is none)
_NIC_ASPECTS: Final[tuple[tuple[str, str, str, str, str, _Read], ...]] = (
    ("ip", "NicIP", "ips", "NIC_IPs", "IP address", lambda _, nic: nic.ip),
    ("mac", "NicMAC", "macs", "NIC_MACs", "MAC address", lambda _, nic: nic.mac),
    ("mode", "NicMode", "modes", "NIC_modes", "mode", lambda row, nic: _params(row, nic).mode.value),
    ("link", "NicLink", "links", "NIC_links", "link", lambda row, nic: _params(row, nic).link),
    ("bridge", "NicBridge", "bridges", "NIC_bridges", "bridge", _bridge),
    ("vlan", "NicVLAN", "vlans", "NIC_VLANs", "VLAN", lambda row, nic: _params(row, nic).vlan or None),
    ("name", "NicName", "names", "NIC_Names", "name", lambda _, nic: nic.name),
    ("uuid", "NicUUID", "uuids", "NIC_UUIDs", "UUID", lambda _, nic: nic.uuid),
    ("network", "NicNetwork", "networks", "NIC_networks", "UUID of the network", lambda _, nic: nic.network),
    ("network.name", "NicNetworkName", "networks.names", "NIC_networks_names", "name of the network", _network_name),
)
# names of old, for the first interface
_OLD: Final = {
    "bridge": "bridge",
    "ip": "ip",
    "mac": "mac",
    "nic_link": "link",
    "nic_mode": "mode",
    "nic_network": "network",
}


def nic_fields() -> Iterable[_NicField]:
    """The fields about network interfaces."""
    yield _NicField("nic.count", "NICs", FieldKind.NUMBER, "number of interfaces", lambda row: len(row.object.nics))
    for name, one, plural, every, doc, read in _NIC_ASPECTS:
        yield _NicField(f"nic.{plural}", every, FieldKind.OTHER, f"{doc} of each interface", _of_each_nic(read))
        for index in range(_NICS):
            yield _NicField(
                f"nic.{name}/{index}",
                f"{one}/{index}",
                FieldKind.TEXT,
                f"{doc} of interface {index}",
                _of_one_nic(read, index),
            )
        for old in (old for old, new in _OLD.items() if new == name):
            yield _NicField(
                old, f"{one}/0", FieldKind.TEXT, f"{doc} of interface 0, under its old name", _of_one_nic(read, 0)
            )


def _of_each_nic(read: _Read) -> Callable[[_NicRow], object]:
    return lambda row: [read(row, nic) for nic in row.object.nics]


def _of_one_nic(read: _Read, index: int) -> Callable[[_NicRow], object]:
    def value(row: _NicRow) -> object:
        nics = row.object.nics
        return or_unavailable(read(row, nics[index])) if index < len(nics) else CellStatus.UNAVAILABLE

    return value


# The fields of instances that are read from the facts of node daemons, and the status that follows from them.
#
# Theory. A node daemon tells which instances run on its node. One that is not on its primary node may be on another
# that was asked. The status sets what is beside what should be; a node that does not reply makes it an error of the
# node, and a fault of this machine makes it unknown: nobody may restart an instance because of that.
#
# Source: luxid.md 7.6, "instance", live; noded.md 6, "all_instances_info".


if TYPE_CHECKING:
    # what is known of node daemons is loaded only where there are other nodes
    from protocol.noded.facts import InstanceFacts

# `InstanceFacts.state` of an instance that runs
_RUNS: Final = 0


class InstanceStatus(enum.Enum):
    """What an instance does, beside what it should do."""

    RUNNING = "running"
    USER_DOWN = "USER_down"
    ADMIN_DOWN = "ADMIN_down"
    ADMIN_OFFLINE = "ADMIN_offline"
    ERROR_UP = "ERROR_up"
    ERROR_DOWN = "ERROR_down"
    WRONG_NODE = "ERROR_wrongnode"
    NODE_DOWN = "ERROR_nodedown"
    NODE_OFFLINE = "ERROR_nodeoffline"


@attrs.frozen(eq=False)
class Sighting:
    """What the node daemons know of an instance."""

    # None: it is on none of the nodes that were asked
    facts: "InstanceFacts | None"
    # whether it is on its primary node
    is_in_place: bool = True


@attrs.frozen(eq=False)
class InstanceRow(ObjectRow[AnyInstance]):
    """An instance, and what node daemons have told of it."""

    seen: Sighting | NoFacts = NoFacts.NOT_ASKED
    # how to reach its console; None: its node daemon does not tell
    console: Mapping[str, object] | NoFacts | None = NoFacts.NOT_ASKED

    @property
    def primary(self) -> Node | None:
        """Its primary node, if it has one that exists."""
        uuid = self.object.primary_node
        return None if uuid is None else self.config.config.nodes.get(uuid)


_Field = QueryField[InstanceRow]


def instance_rows(instances: Iterable[AnyInstance], config: ConfigIndex) -> list[InstanceRow]:
    """The rows of these instances before anybody is asked."""
    return [InstanceRow(each, config) for each in instances]


def with_sightings(
    rows: Iterable[InstanceRow], found: "Mapping[str, Mapping[str, InstanceFacts] | NoFacts]"
) -> list[InstanceRow]:
    """The rows with what is known of their instances.

    Args: found: UUID of a node -> its instances by name, or why they are not known.
    """
    everywhere = {
        name: facts for here in found.values() if not isinstance(here, NoFacts) for name, facts in here.items()
    }
    return [InstanceRow(row.object, row.config, _seen(row, found, everywhere), row.console) for row in rows]


def _seen(
    row: InstanceRow,
    found: "Mapping[str, Mapping[str, InstanceFacts] | NoFacts]",
    everywhere: "Mapping[str, InstanceFacts]",
) -> Sighting | NoFacts:
    here, name = found.get(row.object.primary_node or "", NoFacts.NOT_ASKED), row.object.name or ""
    if isinstance(here, NoFacts):
        return here
    return Sighting(here[name]) if name in here else Sighting(everywhere.get(name), is_in_place=False)


def with_consoles(
    rows: Iterable[InstanceRow], found: Mapping[str, Mapping[str, Mapping[str, object]] | NoFacts]
) -> list[InstanceRow]:
    """The rows with how to reach their consoles. Args: found: as of `with_sightings`."""
    return [InstanceRow(row.object, row.config, row.seen, _console_of(row, found)) for row in rows]


def _console_of(
    row: InstanceRow, found: Mapping[str, Mapping[str, Mapping[str, object]] | NoFacts]
) -> Mapping[str, object] | NoFacts | None:
    here = found.get(row.object.primary_node or "", NoFacts.NOT_ASKED)
    return here if isinstance(here, NoFacts) else here.get(row.object.name or "")


def instance_status(row: InstanceRow) -> InstanceStatus | None:
    """The status of an instance; None: it is not known."""
    match row.seen:
        case NoFacts.NOT_ASKED:
            return None
        case NoFacts.OFFLINE:
            return InstanceStatus.NODE_OFFLINE
        case NoFacts.FAILED:
            return InstanceStatus.NODE_DOWN
        case Sighting(facts=None):
            return _when_absent(row)
        case Sighting(is_in_place=False):
            return InstanceStatus.WRONG_NODE
        case Sighting():
            return _when_there(row, runs=_runs(row.seen))
        case _:
            assert_never(row.seen)


def _when_there(row: InstanceRow, *, runs: bool) -> InstanceStatus:
    should_run = row.object.admin_state is AdminState.UP
    if runs:
        return InstanceStatus.RUNNING if should_run else InstanceStatus.ERROR_UP
    if not should_run:
        return InstanceStatus.ADMIN_DOWN
    return InstanceStatus.USER_DOWN if _user_may_stop(row) else InstanceStatus.ERROR_DOWN


def _when_absent(row: InstanceRow) -> InstanceStatus:
    match row.object.admin_state:
        case AdminState.UP:
            return InstanceStatus.ERROR_DOWN
        case AdminState.OFFLINE:
            return InstanceStatus.ADMIN_OFFLINE
        case AdminState.DOWN | None:
            by_user = row.object.admin_state_source is AdminStateSource.USER
            is_user_down = by_user and row.config.cluster.enabled_user_shutdown
            return InstanceStatus.USER_DOWN if is_user_down else InstanceStatus.ADMIN_DOWN
        case _:
            assert_never(row.object.admin_state)


def _user_may_stop(row: InstanceRow) -> bool:
    """Whether a user may shut the instance down from inside."""
    if not row.config.cluster.enabled_user_shutdown:
        return False
    return row.object.hypervisor is not Hypervisor.KVM or hv_params(row).get("user_shutdown") is True


def _status(row: InstanceRow) -> object:
    found = instance_status(row)
    return status_without(NoFacts.NOT_ASKED, row.primary) if found is None else found.value


def _sighted(read: Callable[[Sighting], object]) -> Callable[[InstanceRow], object]:
    return lambda row: status_without(row.seen, row.primary) if isinstance(row.seen, NoFacts) else read(row.seen)


def _runs(seen: Sighting) -> bool:
    return seen.facts is not None and seen.facts.state == _RUNS


def _console(row: InstanceRow) -> object:
    return status_without(row.console, row.primary) if isinstance(row.console, NoFacts) else or_no_data(row.console)


def live_instance_fields() -> Iterable[_Field]:
    """The fields whose values only node daemons know."""
    seen = Need.INSTANCES
    return (
        _Field("status", "Status", FieldKind.TEXT, "what it does, beside what it should do", _status, need=seen),
        _Field("oper_state", "Running", FieldKind.BOOL, "whether it runs", _sighted(_runs), need=seen),
        _Field(
            "oper_ram",
            "Memory",
            FieldKind.UNIT,
            "memory that it has",
            _sighted(lambda seen: or_unavailable(seen.facts and seen.facts.memory)),
            need=seen,
        ),
        _Field(
            "oper_vcpus",
            "VCPUs",
            FieldKind.NUMBER,
            "virtual processors that it has",
            _sighted(lambda seen: or_unavailable(seen.facts and seen.facts.vcpus)),
            need=seen,
        ),
        _Field("console", "Console", FieldKind.OTHER, "how to reach its console", _console, need=Need.CONSOLES),
    )


def _be_param(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: getattr(be_params(row), name)


def _group(row: InstanceRow) -> NodeGroup | None:
    return row.config.node_group(row.object.primary_node)


def _secondary_groups(row: InstanceRow) -> list[NodeGroup]:
    groups = [row.config.node_group(node) for node in row.config.secondary_nodes(row.object)]
    return list({group.uuid: group for group in groups if group is not None}.values())


def _own(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: or_unavailable(getattr(row.object, name))


def _own_word(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: or_unavailable(getattr(getattr(row.object, name), "value", None))


_PLAIN: Final[tuple[_Field, ...]] = (
    _Field("name", "Instance", FieldKind.TEXT, "name of the instance", _own("name"), aliases=host_aliases),
    _Field("admin_state", "InstanceState", FieldKind.TEXT, "state that it should have", _own_word("admin_state")),
    _Field(
        "admin_state_source", "InstanceStateSource", FieldKind.TEXT, "who last said so", _own_word("admin_state_source")
    ),
    _Field(
        "admin_up",
        "Autostart",
        FieldKind.BOOL,
        "whether it should run",
        lambda row: row.object.admin_state is AdminState.UP,
    ),
    _Field("disks_active", "DisksActive", FieldKind.BOOL, "whether its disks should be active", _own("disks_active")),
    _Field(
        "forthcoming",
        "Forthcoming",
        FieldKind.BOOL,
        "whether it only holds a place for one to be made",
        lambda row: isinstance(row.object, ForthcomingInstance),
    ),
    _Field("hypervisor", "Hypervisor", FieldKind.TEXT, "name of its hypervisor", _own_word("hypervisor")),
    _Field("network_port", "Network_port", FieldKind.OTHER, "port of its console", _own("network_port")),
    _Field("os", "OS", FieldKind.TEXT, "operating system", _own("os")),
    _Field(
        "pnode",
        "Primary_node",
        FieldKind.TEXT,
        "primary node",
        lambda row: or_unavailable(row.config.node_name(row.object.primary_node)),
        aliases=host_aliases,
    ),
    _Field(
        "pnode.group",
        "PrimaryNodeGroup",
        FieldKind.TEXT,
        "group of the primary node",
        lambda row: or_unavailable(getattr(_group(row), "name", None)),
    ),
    _Field(
        "pnode.group.uuid",
        "PrimaryNodeGroupUUID",
        FieldKind.TEXT,
        "UUID of the primary node's group",
        lambda row: or_unavailable(getattr(_group(row), "uuid", None)),
    ),
    _Field(
        "snodes",
        "Secondary_Nodes",
        FieldKind.OTHER,
        "secondary nodes",
        lambda row: [row.config.node_name(node) for node in row.config.secondary_nodes(row.object)],
    ),
    _Field(
        "snodes.group",
        "SecondaryNodesGroups",
        FieldKind.OTHER,
        "groups of the secondary nodes",
        lambda row: [group.name for group in _secondary_groups(row)],
    ),
    _Field(
        "snodes.group.uuid",
        "SecondaryNodesGroupsUUID",
        FieldKind.OTHER,
        "UUIDs of the secondary nodes' groups",
        lambda row: [group.uuid for group in _secondary_groups(row)],
    ),
)

_PARAMS: Final[tuple[_Field, ...]] = (
    _Field(
        "hvparams",
        "HypervisorParameters",
        FieldKind.OTHER,
        "hypervisor parameters, with those of system and cluster",
        hv_params,
    ),
    _Field(
        "beparams",
        "BackendParameters",
        FieldKind.OTHER,
        "backend parameters, with the cluster's",
        lambda row: to_json(be_params(row)),
    ),
    _Field("osparams", "OpSysParameters", FieldKind.OTHER, "parameters of the system, with the cluster's", os_params),
    _Field(
        "custom_hvparams",
        "CustomHypervisorParameters",
        FieldKind.OTHER,
        "hypervisor parameters of its own",
        lambda row: row.object.hvparams,
    ),
    _Field(
        "custom_beparams",
        "CustomBackendParameters",
        FieldKind.OTHER,
        "backend parameters of its own",
        lambda row: to_json(row.object.beparams),
    ),
    _Field(
        "custom_osparams",
        "CustomOpSysParameters",
        FieldKind.OTHER,
        "parameters of the system of its own",
        lambda row: row.object.osparams,
    ),
    _Field(
        "custom_nicparams",
        "CustomNicParameters",
        FieldKind.OTHER,
        "parameters of its interfaces of their own",
        lambda row: [to_json(nic.nicparams) for nic in row.object.nics],
    ),
)

_BE: Final[tuple[_Field, ...]] = tuple(
    _Field(name, title, kind, doc, _be_param(of))
    for name, title, kind, of, doc in (
        ("be/always_failover", "be/always_failover", FieldKind.BOOL, "always_failover", "whether it never migrates"),
        ("be/auto_balance", "Auto_balance", FieldKind.BOOL, "auto_balance", "whether the balancer may move it"),
        ("be/maxmem", "ConfigMaxMem", FieldKind.UNIT, "maxmem", "most memory"),
        ("be/memory", "ConfigMaxMem", FieldKind.UNIT, "maxmem", "most memory, under its old name"),
        ("be/minmem", "ConfigMinMem", FieldKind.UNIT, "minmem", "least memory"),
        ("be/spindle_use", "be/spindle_use", FieldKind.NUMBER, "spindle_use", "spindles that it is taken to use"),
        ("be/vcpus", "ConfigVCPUs", FieldKind.NUMBER, "vcpus", "virtual processors"),
        ("vcpus", "ConfigVCPUs", FieldKind.NUMBER, "vcpus", "virtual processors"),
    )
)

INSTANCES: Final[Things[InstanceRow]] = Things.of(
    "instance",
    (
        *_PLAIN,
        *_PARAMS,
        *_BE,
        *live_instance_fields(),
        *disk_fields(),
        *nic_fields(),
        *hv_fields(hv_params),
        *entity_fields("instance"),
    ),
    name_field="name",
)
