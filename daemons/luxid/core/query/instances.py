"""The fields of instances, without those of their disks, interfaces and hypervisors.

Source: luxid.md 7.6, "instance".
"""

from collections.abc import Callable
from typing import Final

from common.objects.codec import to_json
from common.objects.instance import AnyInstance, ForthcomingInstance
from common.objects.kinds import AdminState
from common.objects.nodegroup import NodeGroup
from common.objects.params import BeParams, filled
from daemons.luxid.core.query.diskfields import disk_fields
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.entities import entity_fields
from daemons.luxid.core.query.fields import Kind, QueryField, Status, host_aliases, or_unavailable
from daemons.luxid.core.query.hvfields import NAMES, hv_fields
from daemons.luxid.core.query.nicfields import nic_fields
from daemons.luxid.core.query.rows import Row

InstanceRow = Row[AnyInstance]
_Field = QueryField[InstanceRow]


def _be_params(row: InstanceRow) -> BeParams:
    return filled(row.config.config.cluster.beparams["default"], row.object.beparams)


def _be_param(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: getattr(_be_params(row), name)


def _hv_params(row: InstanceRow) -> dict[str, object]:
    """What an instance may set, with the values of the operating system and the cluster where it does not."""
    instance, cluster = row.object, row.config.config.cluster
    if instance.hypervisor is None:
        return dict(instance.hvparams)
    of_system = cluster.os_hvp.get(instance.os or "", {}).get(instance.hypervisor, {})
    every = {**cluster.hvparams.get(instance.hypervisor, {}), **of_system, **instance.hvparams}
    return {name: value for name, value in every.items() if name in _HV_NAMES}


_HV_NAMES: Final = frozenset(NAMES)


def _os_params(row: InstanceRow) -> dict[str, str]:
    """Those of the operating system, then of its variant, then the instance's own; secret ones are not shown."""
    name, params = row.object.os or "", row.config.config.cluster.osparams
    return {**params.get(name.partition("+")[0], {}), **params.get(name, {}), **row.object.osparams}


def _group(row: InstanceRow) -> NodeGroup | None:
    return row.config.node_group(row.object.primary_node)


def _secondary_groups(row: InstanceRow) -> list[NodeGroup]:
    groups = [row.config.node_group(node) for node in row.config.secondary_nodes(row.object)]
    return list({group.uuid: group for group in groups if group is not None}.values())


def _own(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: or_unavailable(getattr(row.object, name))


def _own_word(name: str) -> Callable[[InstanceRow], object]:
    return lambda row: or_unavailable(getattr(getattr(row.object, name), "value", None))


def _live(row: InstanceRow) -> Status:
    node = row.config.config.nodes.get(row.object.primary_node) if row.object.primary_node is not None else None
    return Status.OFFLINE if node is not None and node.offline else Status.NO_DATA


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
        _hv_params,
    ),
    _Field(
        "beparams",
        "BackendParameters",
        Kind.OTHER,
        "backend parameters, with the cluster's",
        lambda row: to_json(_be_params(row)),
    ),
    _Field("osparams", "OpSysParameters", Kind.OTHER, "parameters of the system, with the cluster's", _os_params),
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

# of the node daemon
_LIVE: Final[tuple[_Field, ...]] = tuple(
    _Field(name, title, kind, doc, _live)
    for name, title, kind, doc in (
        ("status", "Status", Kind.TEXT, "what it does, beside what it should do"),
        ("oper_state", "Running", Kind.BOOL, "whether it runs"),
        ("oper_ram", "Memory", Kind.UNIT, "memory that it has"),
        ("oper_vcpus", "VCPUs", Kind.NUMBER, "virtual processors that it has"),
        ("console", "Console", Kind.OTHER, "how to reach its console"),
    )
)

INSTANCES: Final[Things[InstanceRow]] = Things.of(
    "instance",
    (
        *_PLAIN,
        *_PARAMS,
        *_BE,
        *_LIVE,
        *disk_fields(),
        *nic_fields(),
        *hv_fields(_hv_params),
        *entity_fields("instance"),
    ),
    name_field="name",
)
