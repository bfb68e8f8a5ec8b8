"""The fields of nodes; `nodelive` has those that their node daemons know.

Source: luxid.md 7.6, "node".
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from common.objects.codec import to_json
from common.objects.config import NdParams, Node
from common.objects.index import ConfigIndex
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
from daemons.luxid.core.query.objects import ObjectRow, entity_fields, nd_param_fields

# The fields of nodes that are read from the facts of their node daemons: memory, processors, space, boot id.
#
# Source: luxid.md 7.6, "node", live; noded.md 6, "node_info".


if TYPE_CHECKING:
    # what is known of node daemons is loaded only where there are other nodes
    from protocol.noded.facts import HypervisorFacts, NodeFacts, StorageSpace

# its space is counted in spindles, which are physical disks
SPINDLES: Final = "lvm-pv"


@attrs.frozen(eq=False)
class NodeRow(ObjectRow[Node]):
    """A node, and what its node daemon has told of it."""

    facts: "NodeFacts | NoFacts" = NoFacts.NOT_ASKED


_Field = QueryField[NodeRow]
_Read = Callable[["NodeFacts"], object]


def node_rows(nodes: Iterable[Node], config: ConfigIndex) -> list[NodeRow]:
    """The rows of these nodes before anybody is asked."""
    return [NodeRow(node, config) for node in nodes]


def live_node_fields() -> Iterable[_Field]:
    """The fields whose values only node daemons know."""
    return [_Field(name, title, kind, doc, _reader(read), need=need) for name, title, kind, doc, need, read in _FIELDS]


def _reader(read: _Read) -> Callable[[NodeRow], object]:
    def value(row: NodeRow) -> object:
        facts = row.facts
        if isinstance(facts, NoFacts):
            return status_without(facts, row.object)
        return or_no_data(read(facts))

    return value


def _of_hypervisor(read: "Callable[[HypervisorFacts], int]") -> _Read:
    return lambda facts: read(facts.hypervisors[0]) if facts.hypervisors else None


def _of_storage(read: "Callable[[StorageSpace], int | None]") -> _Read:
    """Of the first store that is not counted in spindles."""
    return lambda facts: _first(read, (each for each in facts.storage or () if each.type != SPINDLES))


def _of_spindles(read: "Callable[[StorageSpace], int | None]") -> _Read:
    return lambda facts: _first(read, (each for each in facts.storage or () if each.type == SPINDLES))


def _first(read: "Callable[[StorageSpace], int | None]", stores: "Iterable[StorageSpace]") -> int | None:
    return next((read(each) for each in stores), None)


_FIELDS: Final[tuple[tuple[str, str, FieldKind, str, Need, _Read], ...]] = (
    ("bootid", "BootID", FieldKind.TEXT, "changes with each boot", Need.NODE, lambda facts: facts.boot_id),
    (
        "cnodes",
        "CNodes",
        FieldKind.NUMBER,
        "number of NUMA domains",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_nodes),
    ),
    (
        "cnos",
        "CNOs",
        FieldKind.NUMBER,
        "processors that the node itself uses",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_dom0),
    ),
    (
        "csockets",
        "CSockets",
        FieldKind.NUMBER,
        "number of processor sockets",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_sockets),
    ),
    (
        "ctotal",
        "CTotal",
        FieldKind.NUMBER,
        "number of logical processors",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_total),
    ),
    (
        "dfree",
        "DFree",
        FieldKind.UNIT,
        "free storage for instances",
        Need.STORAGE,
        _of_storage(lambda store: store.storage_free),
    ),
    (
        "dtotal",
        "DTotal",
        FieldKind.UNIT,
        "all storage for instances",
        Need.STORAGE,
        _of_storage(lambda store: store.storage_size),
    ),
    (
        "mfree",
        "MFree",
        FieldKind.UNIT,
        "free memory for instances",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_free),
    ),
    (
        "mnode",
        "MNode",
        FieldKind.UNIT,
        "memory that the node itself uses",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_dom0),
    ),
    (
        "mtotal",
        "MTotal",
        FieldKind.UNIT,
        "all memory",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_total),
    ),
    (
        "spfree",
        "SpFree",
        FieldKind.NUMBER,
        "free spindles",
        Need.STORAGE,
        _of_spindles(lambda store: store.storage_free),
    ),
    (
        "sptotal",
        "SpTotal",
        FieldKind.NUMBER,
        "all spindles",
        Need.STORAGE,
        _of_spindles(lambda store: store.storage_size),
    ),
)


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
    return row.object.powered if row.config.nd_params(row.object).oob_program else CellStatus.UNAVAILABLE


def _group(name: str) -> Callable[[NodeRow], object]:
    return lambda row: or_unavailable(getattr(row.config.config.nodegroups.get(row.object.group), name, None))


_CONFIGURED: Final[tuple[_Field, ...]] = (
    _Field("name", "Node", FieldKind.TEXT, "name of the node", lambda row: row.object.name, aliases=host_aliases),
    _Field("pip", "PrimaryIP", FieldKind.TEXT, "address by which it is reached", lambda row: row.object.primary_ip),
    _Field("sip", "SecondaryIP", FieldKind.TEXT, "address for storage traffic", lambda row: row.object.secondary_ip),
    _Field("role", "Role", FieldKind.TEXT, "M master, C candidate, R regular, D drained, O offline", _role),
    _Field("master", "IsMaster", FieldKind.BOOL, "whether it is the master", _is_master),
    _Field(
        "master_candidate",
        "MasterC",
        FieldKind.BOOL,
        "whether it holds copies of queue and configuration",
        lambda row: row.object.master_candidate,
    ),
    _Field(
        "master_capable",
        "MasterCapable",
        FieldKind.BOOL,
        "whether it may become master candidate",
        lambda row: row.object.master_capable,
    ),
    _Field(
        "vm_capable", "VMCapable", FieldKind.BOOL, "whether it may have instances", lambda row: row.object.vm_capable
    ),
    _Field("drained", "Drained", FieldKind.BOOL, "whether it takes nothing new", lambda row: row.object.drained),
    _Field("offline", "Offline", FieldKind.BOOL, "whether it is marked offline", lambda row: row.object.offline),
    _Field("powered", "Powered", FieldKind.BOOL, "whether it should be switched on", _powered),
    _Field("group", "Group", FieldKind.TEXT, "name of its node group", _group("name")),
    _Field("group.uuid", "GroupUUID", FieldKind.TEXT, "UUID of its node group", lambda row: row.object.group),
    _Field(
        "ndparams",
        "NodeParameters",
        FieldKind.OTHER,
        "parameters, with those of group and cluster",
        lambda row: to_json(row.config.nd_params(row.object)),
    ),
    _Field(
        "custom_ndparams",
        "CustomNodeParameters",
        FieldKind.OTHER,
        "parameters of its own",
        lambda row: to_json(row.object.ndparams),
    ),
    _Field(
        "pinst_cnt",
        "Pinst",
        FieldKind.NUMBER,
        "number of instances with this primary node",
        lambda row: len(row.config.primaries(row.object.uuid)),
    ),
    _Field(
        "sinst_cnt",
        "Sinst",
        FieldKind.NUMBER,
        "number of instances with this secondary node",
        lambda row: len(row.config.secondaries(row.object.uuid)),
    ),
    _Field(
        "pinst_list",
        "PriInstances",
        FieldKind.OTHER,
        "instances with this primary node",
        lambda row: row.config.primaries(row.object.uuid),
    ),
    _Field(
        "sinst_list",
        "SecInstances",
        FieldKind.OTHER,
        "instances with this secondary node",
        lambda row: row.config.secondaries(row.object.uuid),
    ),
    _Field("hv_state", "HypervisorState", FieldKind.OTHER, "state by hypervisor", lambda _: CellStatus.UNAVAILABLE),
    _Field("disk_state", "DiskState", FieldKind.OTHER, "state of the storage", lambda _: CellStatus.UNAVAILABLE),
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
