"""The fields of the objects of the configuration but instances and nodes."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs

from common.objects.codec import to_json
from common.objects.config import Entity, NdParams, Network, Node, NodeGroup, filled
from common.objects.filter import FilterRule
from common.objects.index import ConfigIndex
from common.objects.kinds import NetworkUuid
from daemons.luxid.core.query.engine import (
    CellStatus,
    FieldKind,
    Need,
    NoFacts,
    QueryField,
    Things,
    host_aliases,
    or_unavailable,
    status_without,
)

# What the fields of nodes, groups, networks and instances are read from.


O = TypeVar("O")  # noqa: E741  # an object
O_co = TypeVar("O_co", covariant=True)


@attrs.frozen(eq=False)
class ObjectRow(Generic[O_co]):
    """An object, and the configuration it is read in."""

    object: O_co
    config: ConfigIndex


def rows_of(objects: Iterable[O], config: ConfigIndex) -> list[ObjectRow[O]]:
    return [ObjectRow(each, config) for each in objects]


# The fields that all objects of the configuration have, and those of the parameters of nodes.
#
# Source: luxid.md 7.6, "common", "ndp/*".


R = TypeVar("R")


def entity_fields(what: str) -> Iterable[QueryField[ObjectRow[Entity]]]:
    """Times, id, serial number and tags of `what`."""
    return (
        QueryField("ctime", "CTime", FieldKind.TIMESTAMP, f"when the {what} was made", lambda row: row.object.ctime),
        QueryField(
            "mtime", "MTime", FieldKind.TIMESTAMP, f"when the {what} last changed", lambda row: row.object.mtime
        ),
        QueryField("uuid", "UUID", FieldKind.TEXT, f"UUID of the {what}", lambda row: row.object.uuid),
        QueryField(
            "serial_no",
            "SerialNo",
            FieldKind.NUMBER,
            f"grows with each change of the {what}",
            lambda row: row.object.serial_no,
        ),
        QueryField("tags", "Tags", FieldKind.OTHER, f"tags of the {what}, sorted", lambda row: sorted(row.object.tags)),
    )


_ND_PARAMS = (
    ("cpu_speed", "ndp/cpu_speed", FieldKind.FLOAT, "speed of its processors, as a factor to the usual"),
    ("exclusive_storage", "ExclusiveStorage", FieldKind.BOOL, "whether no two instances may share a physical disk"),
    ("oob_program", "OutOfBandProgram", FieldKind.OTHER, "program for power control"),
    ("ovs", "OpenvSwitch", FieldKind.BOOL, "whether Open vSwitch is set up"),
    ("ovs_link", "OpenvSwitchLink", FieldKind.OTHER, "interface that connects the virtual switch to outside"),
    ("ovs_name", "OpenvSwitchName", FieldKind.OTHER, "name of the virtual switch"),
    ("spindle_count", "SpindleCount", FieldKind.NUMBER, "spindles that the storage is taken to have"),
    ("ssh_port", "ndp/ssh_port", FieldKind.NUMBER, "port of the SSH daemon"),
)


def nd_param_fields(params: Callable[[R], NdParams]) -> Iterable[QueryField[R]]:
    """A field for each parameter of nodes."""
    return [
        QueryField(f"ndp/{name}", title, kind, f"{doc} (node parameter)", _param_reader(params, name))
        for name, title, kind, doc in _ND_PARAMS
    ]


def _param_reader(params: Callable[[R], NdParams], name: str) -> Callable[[R], object]:
    return lambda row: getattr(params(row), name)


# The fields of node groups.
#
# Source: luxid.md 7.6, "group".


GroupRow = ObjectRow[NodeGroup]
_GroupField = QueryField[GroupRow]


def _nd_params(row: GroupRow) -> NdParams:
    return filled(row.config.config.cluster.ndparams, row.object.ndparams)


def _ipolicy(row: GroupRow) -> dict[str, object]:
    """The group's policy, with the cluster's for what it lacks."""
    policy, own = row.config.config.cluster.ipolicy, row.object.ipolicy
    std = {**to_json(policy.std), **(to_json(own.std) if own.std is not None else {})}
    return {**to_json(policy), **to_json(own), "std": std}


def _disk_params(row: GroupRow) -> dict[str, object]:
    own = _own_disk_params(row)
    of_cluster = row.config.config.cluster.diskparams
    return {each.value: {**params, **own.get(each.value, {})} for each, params in of_cluster.items()}


def _own_disk_params(row: GroupRow) -> dict[str, Mapping[str, object]]:
    return {each.value: params for each, params in row.object.diskparams.items()}


def _node_names(row: GroupRow) -> list[str]:
    return [node.name for node in row.config.group_nodes(row.object.uuid)]


def _instance_names(row: GroupRow) -> list[str]:
    nodes = row.config.group_nodes(row.object.uuid)
    return [name for node in nodes for name in row.config.primaries(node.uuid)]


_GROUP_FIELDS: Final[tuple[_GroupField, ...]] = (
    _GroupField("name", "Group", FieldKind.TEXT, "name of the group", lambda row: row.object.name),
    _GroupField(
        "alloc_policy",
        "AllocPolicy",
        FieldKind.TEXT,
        "whether new instances may be placed here",
        lambda row: row.object.alloc_policy.value,
    ),
    _GroupField(
        "custom_diskparams", "CustomDiskParameters", FieldKind.OTHER, "disk parameters of its own", _own_disk_params
    ),
    _GroupField(
        "custom_ipolicy",
        "CustomInstancePolicy",
        FieldKind.OTHER,
        "instance policy of its own",
        lambda row: to_json(row.object.ipolicy),
    ),
    _GroupField(
        "custom_ndparams",
        "CustomNDParams",
        FieldKind.OTHER,
        "node parameters of its own",
        lambda row: to_json(row.object.ndparams),
    ),
    _GroupField("diskparams", "DiskParameters", FieldKind.OTHER, "disk parameters, with the cluster's", _disk_params),
    _GroupField("ipolicy", "InstancePolicy", FieldKind.OTHER, "instance policy, with the cluster's", _ipolicy),
    _GroupField(
        "ndparams",
        "NDParams",
        FieldKind.OTHER,
        "node parameters, with the cluster's",
        lambda row: to_json(_nd_params(row)),
    ),
    _GroupField("node_cnt", "Nodes", FieldKind.NUMBER, "number of nodes", lambda row: len(_node_names(row))),
    _GroupField("node_list", "NodeList", FieldKind.OTHER, "its nodes", _node_names),
    _GroupField(
        "pinst_cnt",
        "Instances",
        FieldKind.NUMBER,
        "number of instances whose primary node is in the group",
        lambda row: len(_instance_names(row)),
    ),
    _GroupField(
        "pinst_list", "InstanceList", FieldKind.OTHER, "instances whose primary node is in the group", _instance_names
    ),
)

GROUPS: Final[Things[GroupRow]] = Things.of(
    "node group", (*_GROUP_FIELDS, *nd_param_fields(_nd_params), *entity_fields("node group")), name_field="name"
)


# The fields of networks.
#
# Source: luxid.md 7.6, "network"; wconfd.md 2.4 (pools).


NetworkRow = ObjectRow[Network]
_NetworkField = QueryField[NetworkRow]


def _taken(row: NetworkRow) -> str | None:
    """A 1 for each address that is taken, from inside or outside; None: the network has no pool."""
    pools = [pool for pool in (row.object.reservations, row.object.ext_reservations) if pool is not None]
    if not pools:
        return None
    width = max(len(pool) for pool in pools)
    return "".join(
        "1" if "1" in column else "0" for column in zip(*(pool.ljust(width, "0") for pool in pools), strict=True)
    )


def _count(row: NetworkRow, digit: str) -> object:
    taken = _taken(row)
    return CellStatus.UNAVAILABLE if taken is None else taken.count(digit)


def _map(row: NetworkRow) -> object:
    taken = _taken(row)
    return CellStatus.UNAVAILABLE if taken is None else taken.translate({ord("0"): ".", ord("1"): "X"})


def _external(row: NetworkRow) -> object:
    pool = row.object.ext_reservations
    if pool is None:
        return CellStatus.UNAVAILABLE
    base = int(ipaddress.IPv4Network(row.object.network, strict=False).network_address)
    return ", ".join(str(ipaddress.IPv4Address(base + place)) for place, digit in enumerate(pool) if digit == "1")


def _groups(row: NetworkRow) -> list[list[str]]:
    """The groups it is connected to, and how: [group, mode, link, vlan]."""
    default = row.config.config.cluster.nicparams["default"]
    found = []
    for group in row.config.groups:
        own = group.networks.get(NetworkUuid(row.object.uuid))
        if own is not None:
            params = filled(default, own)
            found.append([group.name, params.mode.value, params.link, params.vlan])
    return found


_NETWORK_FIELDS: Final[tuple[_NetworkField, ...]] = (
    _NetworkField("name", "Network", FieldKind.TEXT, "name of the network", lambda row: row.object.name),
    _NetworkField("network", "Subnet", FieldKind.TEXT, "IPv4 range", lambda row: row.object.network),
    _NetworkField(
        "gateway",
        "Gateway",
        FieldKind.OTHER,
        "gateway of the IPv4 range",
        lambda row: or_unavailable(row.object.gateway),
    ),
    _NetworkField(
        "network6", "IPv6Subnet", FieldKind.OTHER, "IPv6 range", lambda row: or_unavailable(row.object.network6)
    ),
    _NetworkField(
        "gateway6",
        "IPv6Gateway",
        FieldKind.OTHER,
        "gateway of the IPv6 range",
        lambda row: or_unavailable(row.object.gateway6),
    ),
    _NetworkField(
        "mac_prefix",
        "MacPrefix",
        FieldKind.OTHER,
        "begin of the MAC addresses in it",
        lambda row: or_unavailable(row.object.mac_prefix),
    ),
    _NetworkField(
        "free_count", "FreeCount", FieldKind.NUMBER, "number of free addresses", lambda row: _count(row, "0")
    ),
    _NetworkField(
        "reserved_count", "ReservedCount", FieldKind.NUMBER, "number of taken addresses", lambda row: _count(row, "1")
    ),
    _NetworkField("map", "Map", FieldKind.TEXT, "X for each taken address, . for each free one", _map),
    _NetworkField(
        "external_reservations", "ExternalReservations", FieldKind.TEXT, "addresses taken from outside", _external
    ),
    _NetworkField(
        "group_list", "GroupList", FieldKind.OTHER, "groups it is connected to: name, mode, link, VLAN", _groups
    ),
    _NetworkField(
        "group_cnt",
        "NodeGroups",
        FieldKind.NUMBER,
        "number of groups it is connected to",
        lambda row: len(_groups(row)),
    ),
    _NetworkField(
        "inst_list",
        "InstanceList",
        FieldKind.OTHER,
        "instances with an interface in it",
        lambda row: row.config.network_instances(row.object.uuid),
    ),
    _NetworkField(
        "inst_cnt",
        "Instances",
        FieldKind.NUMBER,
        "number of instances with an interface in it",
        lambda row: len(row.config.network_instances(row.object.uuid)),
    ),
)

NETWORKS: Final[Things[NetworkRow]] = Things.of(
    "network", (*_NETWORK_FIELDS, *entity_fields("network")), name_field="name"
)


# The fields of the exports on nodes.
#
# Source: luxid.md 7.6, "export".


@attrs.frozen(eq=False)
class ExportRow(ObjectRow[Node]):
    """An export on a node; or a node whose exports are not known."""

    # name of the export
    export: str | NoFacts = NoFacts.NOT_ASKED


_ExportField = QueryField[ExportRow]


def export_rows(nodes: Iterable[Node], config: ConfigIndex) -> list[ExportRow]:
    """The rows of these nodes before anybody is asked."""
    return [ExportRow(node, config) for node in nodes]


def found_exports(rows: Iterable[ExportRow], found: Mapping[str, Sequence[str] | NoFacts]) -> list[ExportRow]:
    """A row for each export; a node whose exports are not known has one row.

    Args: found: UUID of a node -> the names of its exports, or why they are not known.
    """
    return [ExportRow(row.object, row.config, export) for row in rows for export in _each(found[row.object.uuid])]


def _each(exports: Sequence[str] | NoFacts) -> Sequence[str | NoFacts]:
    return (exports,) if isinstance(exports, NoFacts) else exports


def _name(row: ExportRow) -> object:
    return status_without(row.export, row.object) if isinstance(row.export, NoFacts) else row.export


EXPORTS: Final[Things[ExportRow]] = Things.of(
    "node",
    (
        _ExportField(
            "node", "Node", FieldKind.TEXT, "name of the node", lambda row: row.object.name, aliases=host_aliases
        ),
        _ExportField("export", "Export", FieldKind.TEXT, "name of an export on it", _name, need=Need.EXPORTS),
    ),
    name_field="node",
)


# The fields of filter rules.
#
# Source: luxid.md 7.5.


_RuleField = QueryField[FilterRule]

RULES: Final[Things[FilterRule]] = Things.of(
    "filter rule",
    (
        _RuleField(
            "watermark",
            "Watermark",
            FieldKind.OTHER,
            "last job id used when the rule was added",
            lambda rule: rule.watermark,
        ),
        _RuleField(
            "priority",
            "Priority",
            FieldKind.OTHER,
            "place in the chain, smaller comes first",
            lambda rule: rule.priority,
        ),
        _RuleField(
            "predicates",
            "Predicates",
            FieldKind.OTHER,
            "conditions, all of which must hold",
            lambda rule: [condition.to_wire() for condition in rule.predicates],
        ),
        _RuleField(
            "action",
            "Action",
            FieldKind.OTHER,
            "what becomes of a job that it matches",
            lambda rule: rule.action.to_wire(),
        ),
        _RuleField(
            "reason_trail",
            "ReasonTrail",
            FieldKind.OTHER,
            "who added the rule, and why",
            lambda rule: [entry.to_wire() for entry in rule.reason_trail],
        ),
        _RuleField("uuid", "UUID", FieldKind.OTHER, "UUID of the rule", lambda rule: rule.uuid),
    ),
    name_field="uuid",
)


# What QueryClusterInfo tells of the cluster object.
#
# Source: luxid.md 2.8.


# plain copies; null where the cluster object has none
# fmt: off
_COPIED: Final = (
    "enabled_hypervisors", "hvparams", "os_hvp", "beparams", "osparams", "ipolicy", "nicparams", "ndparams",
    "diskparams", "candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "mac_prefix", "master_netdev",
    "master_netmask", "use_external_mip_script", "volume_group_name", "drbd_usermode_helper", "file_storage_dir",
    "shared_file_storage_dir", "gluster_storage_dir", "maintain_node_health", "ctime", "mtime", "uuid", "tags",
    "uid_pool", "default_iallocator", "default_iallocator_params", "reserved_lvs", "prealloc_wipe_disks",
    "hidden_os", "blacklisted_os", "enabled_disk_templates", "install_image", "instance_communication_network",
    "zeroing_image", "compression_tools", "enabled_user_shutdown", "modify_ssh_setup", "ssh_key_type", "ssh_key_bits",
)
# fmt: on
_INET6: Final = 10


def cluster_facts(index: ConfigIndex) -> dict[str, object]:
    """The keys of QueryClusterInfo that come from the configuration."""
    cluster = index.config.cluster
    written = to_json(cluster)
    return {
        "config_version": index.config.version,
        "name": cluster.cluster_name,
        "master": index.master_name,
        "default_hypervisor": cluster.enabled_hypervisors[0].value if cluster.enabled_hypervisors else None,
        "primary_ip_version": 6 if cluster.primary_ip_family == _INET6 else 4,
        "enabled_data_collectors": {name: each.active for name, each in cluster.data_collectors.items()},
        "data_collector_interval": {name: each.interval for name, each in cluster.data_collectors.items()},
        **{key: written.get(key) for key in _COPIED},
    }
