"""Facts of a node: memory, processors, space, addresses, bridges, exports.

Source: noded.md section 6.
"""

import enum
from collections.abc import Mapping
from typing import Final, Self

import attrs

from common.shapes import JsonObject, Lenient, OwnForm, Row
from common.wire import structure, unstructure
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


# What runs on a node: facts of its instances.
#
# Source: noded.md sections 4 and 6.


# values of `InstanceFacts.state`
RUNNING: Final = 0
SHUT_DOWN: Final = 1


@attrs.frozen
class InstanceFacts(Lenient):
    # MiB
    memory: int
    vcpus: int
    state: int
    # processor time, seconds
    time: float


@attrs.frozen
class FoundInstance(OwnForm):
    """The facts of one instance; `{}` on the wire if it is not there."""

    facts: InstanceFacts | None

    def to_wire(self) -> object:
        return {} if self.facts is None else unstructure(self.facts)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        return cls(None if value == {} else structure(value, InstanceFacts, "facts of an instance"))


@attrs.frozen
class AllInstancesInfo(NodeCall[Mapping[str, InstanceFacts]]):
    """The instances that run here, by name."""

    METHOD = "all_instances_info"
    LIMIT_S = URGENT_S
    hypervisor_list: tuple[str, ...]
    # name of a hypervisor -> its parameters
    all_hvparams: Mapping[str, JsonObject]


@attrs.frozen
class InstanceList(NodeCall[tuple[str, ...]]):
    """The names of the instances that run here."""

    METHOD = "instance_list"
    LIMIT_S = URGENT_S
    hypervisor_list: tuple[str, ...]
    hvparams: Mapping[str, JsonObject]


@attrs.frozen
class InstanceInfo(NodeCall[FoundInstance]):
    METHOD = "instance_info"
    LIMIT_S = URGENT_S
    instance: str
    hname: str
    hvparams: JsonObject


@attrs.frozen
class ConsoleSubject(Lenient):
    """An instance whose console is asked, with all that its hypervisor must know."""

    instance: JsonObject
    node: JsonObject
    group: JsonObject
    hvParams: JsonObject
    beParams: JsonObject


@attrs.frozen
class InstanceConsoleInfo(NodeCall[Mapping[str, JsonObject]]):
    """How to reach the consoles of instances, by name; the request is one object instead of a list."""

    METHOD = "instance_console_info"
    LIMIT_S = URGENT_S
    instances: Mapping[str, ConsoleSubject]

    def to_wire(self) -> object:
        return unstructure(self.instances)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        return super().from_wire([value])


# Checks of a node for `gnt-cluster verify`.
#
# Source: noded.md section 6.


class Check(enum.StrEnum):
    """The checks that need no hypervisor and no storage: a key of the question, with its argument, and of the reply."""

    # names of files -> SHA1 of their contents
    FILES = "filelist"
    NODES = "nodelist"
    NODE_NET = "node-net-test"
    # -> [protocol, release]
    VERSION = "version"
    # -> [seconds, microseconds]
    TIME = "time"
    NODE_SETUP = "nodesetup"
    BRIDGES = "bridges"
    MASTER_IP = "master-ip"
    USER_SCRIPTS = "user-scripts"
    OOB_PATHS = "oob-paths"
    CLIENT_CERT = "client-cert"


@attrs.frozen
class NodeVerify(NodeCall[JsonObject]):
    """Run these checks; the reply has a result for each check that the node knows."""

    METHOD = "node_verify"
    # a check of `Check`, or another one -> its argument
    checkdict: JsonObject
    cluster_name: str
    all_hvparams: JsonObject


@attrs.frozen
class NodeVerifyLight(NodeCall[JsonObject]):
    """As `NodeVerify`, for checks that take little time."""

    METHOD = "node_verify_light"
    checkdict: JsonObject
    cluster_name: str
    hvparams: JsonObject
