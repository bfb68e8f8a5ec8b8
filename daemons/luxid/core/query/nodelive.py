"""The fields of nodes that are read from the facts of their node daemons: memory, processors, space, boot id.

Source: luxid.md 7.6, "node", live; noded.md 6, "node_info".
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from common.objects.index import ConfigIndex
from common.objects.node import Node
from daemons.luxid.core.query.fields import Kind, Need, QueryField
from daemons.luxid.core.query.live import NoFacts, or_no_data, status_without
from daemons.luxid.core.query.rows import Row

if TYPE_CHECKING:
    # what is known of node daemons is loaded only where there are other nodes
    from protocol.noded.facts import HypervisorFacts, NodeFacts, StorageSpace

# its space is counted in spindles, which are physical disks
SPINDLES: Final = "lvm-pv"


@attrs.frozen(eq=False)
class NodeRow(Row[Node]):
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


_FIELDS: Final[tuple[tuple[str, str, Kind, str, Need, _Read], ...]] = (
    ("bootid", "BootID", Kind.TEXT, "changes with each boot", Need.NODE, lambda facts: facts.boot_id),
    (
        "cnodes",
        "CNodes",
        Kind.NUMBER,
        "number of NUMA domains",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_nodes),
    ),
    (
        "cnos",
        "CNOs",
        Kind.NUMBER,
        "processors that the node itself uses",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_dom0),
    ),
    (
        "csockets",
        "CSockets",
        Kind.NUMBER,
        "number of processor sockets",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_sockets),
    ),
    (
        "ctotal",
        "CTotal",
        Kind.NUMBER,
        "number of logical processors",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.cpu_total),
    ),
    (
        "dfree",
        "DFree",
        Kind.UNIT,
        "free storage for instances",
        Need.STORAGE,
        _of_storage(lambda store: store.storage_free),
    ),
    (
        "dtotal",
        "DTotal",
        Kind.UNIT,
        "all storage for instances",
        Need.STORAGE,
        _of_storage(lambda store: store.storage_size),
    ),
    (
        "mfree",
        "MFree",
        Kind.UNIT,
        "free memory for instances",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_free),
    ),
    (
        "mnode",
        "MNode",
        Kind.UNIT,
        "memory that the node itself uses",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_dom0),
    ),
    (
        "mtotal",
        "MTotal",
        Kind.UNIT,
        "all memory",
        Need.HYPERVISOR,
        _of_hypervisor(lambda facts: facts.memory_total),
    ),
    ("spfree", "SpFree", Kind.NUMBER, "free spindles", Need.STORAGE, _of_spindles(lambda store: store.storage_free)),
    ("sptotal", "SpTotal", Kind.NUMBER, "all spindles", Need.STORAGE, _of_spindles(lambda store: store.storage_size)),
)
