"""The fields of instances, without those of their disks, interfaces and hypervisors, and those that are live.

Source: luxid.md 7.6, "instance".
"""

from collections.abc import Callable
from typing import Final

from common.objects.codec import to_json
from common.objects.instance import ForthcomingInstance
from common.objects.kinds import AdminState
from common.objects.nodegroup import NodeGroup
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.entities import entity_fields
from daemons.luxid.core.query.fields import Kind, QueryField, host_aliases, or_unavailable
from daemons.luxid.core.query.instance.diskfields import disk_fields
from daemons.luxid.core.query.instance.hvfields import hv_fields
from daemons.luxid.core.query.instance.instancelive import InstanceRow, live_instance_fields
from daemons.luxid.core.query.instance.instanceparams import be_params, hv_params, os_params
from daemons.luxid.core.query.instance.nicfields import nic_fields

_Field = QueryField[InstanceRow]


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
    _Field("name", "Instance", Kind.TEXT, "name of the instance", _own("name"), aliases=host_aliases),
    _Field("admin_state", "InstanceState", Kind.TEXT, "state that it should have", _own_word("admin_state")),
    _Field("admin_state_source", "InstanceStateSource", Kind.TEXT, "who last said so", _own_word("admin_state_source")),
    _Field(
        "admin_up", "Autostart", Kind.BOOL, "whether it should run", lambda row: row.object.admin_state is AdminState.UP
    ),
    _Field("disks_active", "DisksActive", Kind.BOOL, "whether its disks should be active", _own("disks_active")),
    _Field(
        "forthcoming",
        "Forthcoming",
        Kind.BOOL,
        "whether it only holds a place for one to be made",
        lambda row: isinstance(row.object, ForthcomingInstance),
    ),
    _Field("hypervisor", "Hypervisor", Kind.TEXT, "name of its hypervisor", _own_word("hypervisor")),
    _Field("network_port", "Network_port", Kind.OTHER, "port of its console", _own("network_port")),
    _Field("os", "OS", Kind.TEXT, "operating system", _own("os")),
    _Field(
        "pnode",
        "Primary_node",
        Kind.TEXT,
        "primary node",
        lambda row: or_unavailable(row.config.node_name(row.object.primary_node)),
        aliases=host_aliases,
    ),
    _Field(
        "pnode.group",
        "PrimaryNodeGroup",
        Kind.TEXT,
        "group of the primary node",
        lambda row: or_unavailable(getattr(_group(row), "name", None)),
    ),
    _Field(
        "pnode.group.uuid",
        "PrimaryNodeGroupUUID",
        Kind.TEXT,
        "UUID of the primary node's group",
        lambda row: or_unavailable(getattr(_group(row), "uuid", None)),
    ),
    _Field(
        "snodes",
        "Secondary_Nodes",
        Kind.OTHER,
        "secondary nodes",
        lambda row: [row.config.node_name(node) for node in row.config.secondary_nodes(row.object)],
    ),
    _Field(
        "snodes.group",
        "SecondaryNodesGroups",
        Kind.OTHER,
        "groups of the secondary nodes",
        lambda row: [group.name for group in _secondary_groups(row)],
    ),
    _Field(
        "snodes.group.uuid",
        "SecondaryNodesGroupsUUID",
        Kind.OTHER,
        "UUIDs of the secondary nodes' groups",
        lambda row: [group.uuid for group in _secondary_groups(row)],
    ),
)

_PARAMS: Final[tuple[_Field, ...]] = (
    _Field(
        "hvparams",
        "HypervisorParameters",
        Kind.OTHER,
        "hypervisor parameters, with those of system and cluster",
        hv_params,
    ),
    _Field(
        "beparams",
        "BackendParameters",
        Kind.OTHER,
        "backend parameters, with the cluster's",
        lambda row: to_json(be_params(row)),
    ),
    _Field("osparams", "OpSysParameters", Kind.OTHER, "parameters of the system, with the cluster's", os_params),
    _Field(
        "custom_hvparams",
        "CustomHypervisorParameters",
        Kind.OTHER,
        "hypervisor parameters of its own",
        lambda row: row.object.hvparams,
    ),
    _Field(
        "custom_beparams",
        "CustomBackendParameters",
        Kind.OTHER,
        "backend parameters of its own",
        lambda row: to_json(row.object.beparams),
    ),
    _Field(
        "custom_osparams",
        "CustomOpSysParameters",
        Kind.OTHER,
        "parameters of the system of its own",
        lambda row: row.object.osparams,
    ),
    _Field(
        "custom_nicparams",
        "CustomNicParameters",
        Kind.OTHER,
        "parameters of its interfaces of their own",
        lambda row: [to_json(nic.nicparams) for nic in row.object.nics],
    ),
)

_BE: Final[tuple[_Field, ...]] = tuple(
    _Field(name, title, kind, doc, _be_param(of))
    for name, title, kind, of, doc in (
        ("be/always_failover", "be/always_failover", Kind.BOOL, "always_failover", "whether it never migrates"),
        ("be/auto_balance", "Auto_balance", Kind.BOOL, "auto_balance", "whether the balancer may move it"),
        ("be/maxmem", "ConfigMaxMem", Kind.UNIT, "maxmem", "most memory"),
        ("be/memory", "ConfigMaxMem", Kind.UNIT, "maxmem", "most memory, under its old name"),
        ("be/minmem", "ConfigMinMem", Kind.UNIT, "minmem", "least memory"),
        ("be/spindle_use", "be/spindle_use", Kind.NUMBER, "spindle_use", "spindles that it is taken to use"),
        ("be/vcpus", "ConfigVCPUs", Kind.NUMBER, "vcpus", "virtual processors"),
        ("vcpus", "ConfigVCPUs", Kind.NUMBER, "vcpus", "virtual processors"),
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
