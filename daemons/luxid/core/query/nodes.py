"""The fields of nodes; `nodelive` has those that their node daemons know.

Source: luxid.md 7.6, "node".
"""

from collections.abc import Callable
from typing import Final

from common.objects.codec import to_json
from common.objects.params import NdParams
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.entities import entity_fields, nd_param_fields
from daemons.luxid.core.query.fields import Kind, QueryField, Status, host_aliases, or_unavailable
from daemons.luxid.core.query.nodelive import NodeRow, live_node_fields

_Field = QueryField[NodeRow]


def _is_master(row: NodeRow) -> bool:
    return row.object.uuid == row.config.config.cluster.master_node


def _role(row: NodeRow) -> str:
    node = row.object
    if _is_master(row):
        return "M"
    return "C" if node.master_candidate else "D" if node.drained else "O" if node.offline else "R"


def _nd_params(row: NodeRow) -> NdParams:
    return row.config.nd_params(row.object)


def _powered(row: NodeRow) -> object:
    # known of nodes only whose power can be switched
    return row.object.powered if row.config.nd_params(row.object).oob_program else Status.UNAVAILABLE


def _group(name: str) -> Callable[[NodeRow], object]:
    return lambda row: or_unavailable(getattr(row.config.config.nodegroups.get(row.object.group), name, None))


_CONFIGURED: Final[tuple[_Field, ...]] = (
    _Field("name", "Node", Kind.TEXT, "name of the node", lambda row: row.object.name, aliases=host_aliases),
    _Field("pip", "PrimaryIP", Kind.TEXT, "address by which it is reached", lambda row: row.object.primary_ip),
    _Field("sip", "SecondaryIP", Kind.TEXT, "address for storage traffic", lambda row: row.object.secondary_ip),
    _Field("role", "Role", Kind.TEXT, "M master, C candidate, R regular, D drained, O offline", _role),
    _Field("master", "IsMaster", Kind.BOOL, "whether it is the master", _is_master),
    _Field(
        "master_candidate",
        "MasterC",
        Kind.BOOL,
        "whether it holds copies of queue and configuration",
        lambda row: row.object.master_candidate,
    ),
    _Field(
        "master_capable",
        "MasterCapable",
        Kind.BOOL,
        "whether it may become master candidate",
        lambda row: row.object.master_capable,
    ),
    _Field("vm_capable", "VMCapable", Kind.BOOL, "whether it may have instances", lambda row: row.object.vm_capable),
    _Field("drained", "Drained", Kind.BOOL, "whether it takes nothing new", lambda row: row.object.drained),
    _Field("offline", "Offline", Kind.BOOL, "whether it is marked offline", lambda row: row.object.offline),
    _Field("powered", "Powered", Kind.BOOL, "whether it should be switched on", _powered),
    _Field("group", "Group", Kind.TEXT, "name of its node group", _group("name")),
    _Field("group.uuid", "GroupUUID", Kind.TEXT, "UUID of its node group", lambda row: row.object.group),
    _Field(
        "ndparams",
        "NodeParameters",
        Kind.OTHER,
        "parameters, with those of group and cluster",
        lambda row: to_json(row.config.nd_params(row.object)),
    ),
    _Field(
        "custom_ndparams",
        "CustomNodeParameters",
        Kind.OTHER,
        "parameters of its own",
        lambda row: to_json(row.object.ndparams),
    ),
    _Field(
        "pinst_cnt",
        "Pinst",
        Kind.NUMBER,
        "number of instances with this primary node",
        lambda row: len(row.config.primaries(row.object.uuid)),
    ),
    _Field(
        "sinst_cnt",
        "Sinst",
        Kind.NUMBER,
        "number of instances with this secondary node",
        lambda row: len(row.config.secondaries(row.object.uuid)),
    ),
    _Field(
        "pinst_list",
        "PriInstances",
        Kind.OTHER,
        "instances with this primary node",
        lambda row: row.config.primaries(row.object.uuid),
    ),
    _Field(
        "sinst_list",
        "SecInstances",
        Kind.OTHER,
        "instances with this secondary node",
        lambda row: row.config.secondaries(row.object.uuid),
    ),
    _Field("hv_state", "HypervisorState", Kind.OTHER, "state by hypervisor", lambda _: Status.UNAVAILABLE),
    _Field("disk_state", "DiskState", Kind.OTHER, "state of the storage", lambda _: Status.UNAVAILABLE),
)

NODES: Final[Things[NodeRow]] = Things.of(
    "node",
    (
        *_CONFIGURED,
        *live_node_fields(),
        *nd_param_fields(_nd_params),
        *entity_fields("node"),
    ),
    name_field="name",
)
