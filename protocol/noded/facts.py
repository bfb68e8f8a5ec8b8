"""Facts of a node: memory, processors, space, addresses, bridges, exports.

Source: noded.md section 6.
"""

import attrs

from common.shapes import JsonObject, Lenient, Row
from protocol.noded.call import FAST_S, URGENT_S, NodeCall


@attrs.frozen
class StorageUnit(Row):
    """A store whose space is asked: `[type, key, params]`."""

    # lvm-vg, lvm-pv or file
    type: str
    # name of the volume group, or path of the folder
    key: str
    params: tuple[object, ...]


@attrs.frozen
class HypervisorSpec(Row):
    """A hypervisor whose facts are asked: `[name, parameters]`."""

    hypervisor: str
    hvparams: JsonObject


@attrs.frozen
class StorageSpace(Lenient):
    """The space of a store, in MiB; null if unknown."""

    type: str
    name: str
    storage_free: int | None
    storage_size: int | None


@attrs.frozen
class HypervisorFacts(Lenient):
    """Memory in MiB, and processors; those of domain 0 are all in use by the node itself."""

    memory_total: int
    memory_dom0: int
    memory_free: int
    cpu_total: int
    cpu_dom0: int
    cpu_nodes: int
    cpu_sockets: int
    memory_hv: int | None = None
    hv_version: tuple[int, ...] | None = None


@attrs.frozen
class NodeFacts(Row):
    """`[boot id, storage, hypervisors]`; null where null was asked."""

    boot_id: str
    storage: tuple[StorageSpace, ...] | None
    hypervisors: tuple[HypervisorFacts, ...] | None


@attrs.frozen
class NodeInfo(NodeCall[NodeFacts]):
    """The live data of a node. LuxiD gives the node's own stores, so calls differ by node."""

    METHOD = "node_info"
    LIMIT_S = URGENT_S
    storage_units: tuple[StorageUnit, ...] | None
    hv_specs: tuple[HypervisorSpec, ...] | None


@attrs.frozen
class NodeHasIpAddress(NodeCall[bool]):
    METHOD = "node_has_ip_address"
    LIMIT_S = FAST_S
    address: str


@attrs.frozen
class BridgesExist(NodeCall[None]):
    """Fails if a bridge is missing."""

    METHOD = "bridges_exist"
    LIMIT_S = URGENT_S
    bridges_list: tuple[str, ...]


@attrs.frozen
class ExportList(NodeCall[tuple[str, ...]]):
    """The names of the exported instances on the node."""

    METHOD = "export_list"
    LIMIT_S = FAST_S
