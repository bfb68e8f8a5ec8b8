"""wconfd for a unit under trial: a configuration in memory, whose changes are checked against the held locks.

Replies are made from JSON, as on the wire. Of wconfd's refusals only those are simulated that units can cause:
missing objects, and a serial number that is no longer the object's.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Final, Self, TypedDict, assert_never, cast

from common.errors import RemoteError
from common.locks import Lock, LockLevel, member_lock
from common.objects.kinds import TagKind
from common.shapes import JsonObject
from protocol.messages import AnyRequest
from protocol.wconfd.changes import (
    AddInstance,
    AddInstanceDisk,
    AddTcpUdpPort,
    AllocatePort,
    AttachInstanceDisk,
    ChangeCluster,
    ChangeGroups,
    ChangeNetworks,
    ChangeNodes,
    ChangeTags,
    DetachInstanceDisk,
    RemoveInstance,
    RemoveInstanceDisk,
    SetInstancePrimaryNode,
    SetInstanceStatus,
    UpdateCall,
    UpdateCluster,
    UpdateDisk,
    UpdateInstance,
    UpdateNetwork,
    UpdateNode,
    UpdateNodeGroup,
)
from protocol.wconfd.config import GetObject, ReadConfig, VerifyConfig

# request -> table of the object that it replaces, and the level of the locks that guard it
_TABLES: Final[Mapping[type[AnyRequest], tuple[str, LockLevel]]] = {
    UpdateNode: ("nodes", LockLevel.NODE),
    UpdateNodeGroup: ("nodegroups", LockLevel.NODEGROUP),
    UpdateNetwork: ("networks", LockLevel.NETWORK),
    UpdateInstance: ("instances", LockLevel.INSTANCE),
    UpdateDisk: ("disks", LockLevel.INSTANCE),
}
# kind of objects with tags -> table of them, and the level of the locks that guard them; the cluster's have no lock
_TAGGED: Final[Mapping[TagKind, tuple[str, LockLevel]]] = {
    TagKind.NODE: ("nodes", LockLevel.NODE),
    TagKind.NODEGROUP: ("nodegroups", LockLevel.NODEGROUP),
    TagKind.NETWORK: ("networks", LockLevel.NETWORK),
    TagKind.INSTANCE: ("instances", LockLevel.INSTANCE),
}
# requests by which a unit can change something through `UnitConfig`
_Change = (
    AddInstance
    | RemoveInstance
    | SetInstanceStatus
    | SetInstancePrimaryNode
    | AddInstanceDisk
    | AttachInstanceDisk
    | DetachInstanceDisk
    | RemoveInstanceDisk
    | AllocatePort
    | AddTcpUdpPort
    | UpdateCall
    | ChangeNodes
    | ChangeGroups
    | ChangeTags
    | ChangeNetworks
    | ChangeCluster
)
_FIRST_PORT: Final = 11000


class _Object(TypedDict, total=False):
    """An object of the configuration, of any kind; the fields that this module reads."""

    uuid: str
    name: str
    serial_no: int
    mtime: float
    tags: Sequence[str]
    # an instance
    disks: list[str]
    primary_node: str
    # a node
    master_candidate: bool
    # the cluster
    candidate_certs: Mapping[str, str]
    candidate_pool_size: int
    tcpudp_port_pool: Sequence[int]
    highest_used_port: int | None


class FakeWconfd:
    """The part of a client that `UnitConfig` uses.

    Args:
        config: content of `config.data`; it is not changed.
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        self.config = deepcopy(dict(config))
        # changes made, in their order
        self.changes: list[AnyRequest] = []
        # function called with the lock that guards the changed object; raises if it is not held
        self.guard: Callable[[Lock], None] = lambda lock: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call_retrying(self, request: AnyRequest) -> object:
        """Raises: RemoteError: as wconfd; all exceptions of `guard`."""
        if isinstance(request, ReadConfig):
            return deepcopy(self.config)
        if isinstance(request, VerifyConfig):
            return ()
        if isinstance(request, GetObject):
            return self._object(request)
        reply = self._change(cast(_Change, request))
        self.changes.append(request)
        self.config["serial_no"] = cast(int, self.config["serial_no"]) + 1
        return reply

    def _object(self, request: GetObject) -> object:
        if request.kind == "cluster":
            return deepcopy(self._cluster)
        table = self._table(f"{request.kind}s")
        found = [each for each in table.values() if request.id in (each["uuid"], each.get("name"))]
        if not found:
            raise RemoteError(f"there is no {request.kind} '{request.id}'", code="not_found", wire_name="NotFound")
        return deepcopy(found[0])

    def _change(self, request: _Change) -> object:
        match request:
            case AllocatePort():
                return self._allocate_port()
            case AddTcpUdpPort(port):
                self._cluster["tcpudp_port_pool"] = [*self._cluster.get("tcpudp_port_pool", ()), port]
            case AddInstance(given):
                instance = cast(_Object, dict(given))
                self._guard_instance(instance["name"])
                self._table("instances")[instance["uuid"]] = {**instance, "serial_no": 1}
            case RemoveInstance(uuid):
                self._guard_instance(self._instance(uuid)["name"])
                del self._table("instances")[uuid]
            case SetInstanceStatus() | SetInstancePrimaryNode():
                return self._set_instance(request)
            case AddInstanceDisk() | AttachInstanceDisk() | DetachInstanceDisk() | RemoveInstanceDisk():
                self._change_disks(request)
            case (
                UpdateCluster()
                | UpdateNode()
                | UpdateNodeGroup()
                | UpdateNetwork()
                | UpdateInstance()
                | UpdateDisk() as update
            ):
                return self._replace(update)
            case ChangeNodes():
                return self._change_nodes(request)
            case ChangeGroups():
                return self._change_table("nodegroups", LockLevel.NODEGROUP, request.groups, request.removed)
            case ChangeTags():
                self._change_tags(request)
            case ChangeNetworks():
                return self._change_table("networks", LockLevel.NETWORK, request.networks, request.removed)
            case ChangeCluster():
                cast(dict[str, object], self._cluster).update(request.values)
                self._cluster["serial_no"] += 1
                return self._cluster["serial_no"], 0.0
            case _:
                assert_never(request)
        return True

    def _replace(self, request: UpdateCall) -> tuple[int, float]:
        """Replace the object; return its new serial number and time of change."""
        fresh = cast(_Object, dict(request.object))
        if isinstance(request, UpdateCluster):
            old, place, key = self._cluster, cast(dict[str, _Object], self.config), "cluster"
        else:
            table, level = _TABLES[type(request)]
            place, key = self._table(table), fresh["uuid"]
            old = self._known(place, key, table)
            self.guard(member_lock(level, self._guarding_name(level, table, old)))
        if old["serial_no"] != fresh["serial_no"]:
            raise _refusal(f"{key} was changed since it was read: serial number {old['serial_no']}")
        place[key] = {**fresh, "serial_no": old["serial_no"] + 1}
        return old["serial_no"] + 1, float(old.get("mtime", 0))

    def _guarding_name(self, level: LockLevel, table: str, value: _Object) -> str:
        """The name of the guarding lock: an instance's name, for a disk its instance's, for others the uuid."""
        if level is not LockLevel.INSTANCE:
            return str(value["uuid"])
        if table == "instances":
            return str(value["name"])
        owners = [each for each in self._table("instances").values() if value["uuid"] in each.get("disks", ())]
        return str(owners[0]["name"]) if owners else str(value["uuid"])

    def _change_nodes(self, request: ChangeNodes) -> object:
        stamp = self._change_table("nodes", LockLevel.NODE, request.nodes, request.removed)
        if request.candidate_pool_size is not None:
            self._cluster["candidate_pool_size"] = request.candidate_pool_size
        certificates = dict(self._cluster.get("candidate_certs", {}))
        certificates.update((str(uuid), digest) for uuid, digest in request.certificates.items())
        candidates = {uuid for uuid, node in self._table("nodes").items() if node.get("master_candidate")}
        self._cluster["candidate_certs"] = {uuid: text for uuid, text in certificates.items() if uuid in candidates}
        return stamp

    def _change_table(self, name: str, level: LockLevel, given: Sequence[JsonObject], removed: Sequence[str]) -> object:
        table = self._table(name)
        for fresh in (cast(_Object, dict(value)) for value in given):
            self.guard(member_lock(level, fresh["uuid"]))
            table[fresh["uuid"]] = {**fresh, "serial_no": fresh["serial_no"] + 1}
        for uuid in removed:
            self.guard(member_lock(level, uuid))
            del table[self._known(table, uuid, name)["uuid"]]
        return self.config["serial_no"], self.config.get("mtime", 0)

    def _change_tags(self, request: ChangeTags) -> None:
        tagged = self._cluster
        if request.kind is not TagKind.CLUSTER:
            table, level = _TAGGED[request.kind]
            tagged = self._known(self._table(table), request.uuid, table)
            self.guard(member_lock(level, self._guarding_name(level, table, tagged)))
        tagged["tags"] = sorted((set(tagged.get("tags", ())) | set(request.added)) - set(request.removed))
        tagged["serial_no"] += 1

    def _set_instance(self, request: SetInstanceStatus | SetInstancePrimaryNode) -> object:
        instance = self._instance(request.instance)
        self._guard_instance(instance["name"])
        if isinstance(request, SetInstancePrimaryNode):
            instance["primary_node"] = request.node
        else:
            wanted = {
                "admin_state": request.admin_state and request.admin_state.value,
                "disks_active": request.disks_active,
                "admin_state_source": request.admin_state_source and request.admin_state_source.value,
            }
            cast(dict[str, object], instance).update((key, value) for key, value in wanted.items() if value is not None)
        instance["serial_no"] += 1
        return deepcopy(instance) if isinstance(request, SetInstanceStatus) else True

    def _change_disks(
        self, request: AddInstanceDisk | AttachInstanceDisk | DetachInstanceDisk | RemoveInstanceDisk
    ) -> None:
        instance = self._instance(request.instance)
        self._guard_instance(instance["name"])
        disks = list(instance.get("disks", ()))
        if isinstance(request, AddInstanceDisk):
            uuid = str(request.disk["uuid"])
            self._table("disks")[uuid] = cast(_Object, dict(request.disk))
        else:
            uuid = request.disk
            self._known(self._table("disks"), uuid, "disks")
        if isinstance(request, AddInstanceDisk | AttachInstanceDisk):
            if uuid not in disks:
                disks.insert(len(disks) if request.index is None else request.index, uuid)
        elif uuid not in disks:
            raise _refusal(f"disk {uuid} is not attached to instance {instance['name']}")
        else:
            disks.remove(uuid)
        if isinstance(request, RemoveInstanceDisk):
            del self._table("disks")[uuid]
        instance["disks"] = disks
        instance["serial_no"] += 1

    def _allocate_port(self) -> int:
        pool = list(self._cluster.get("tcpudp_port_pool", ()))
        if pool:
            self._cluster["tcpudp_port_pool"] = pool[1:]
            return pool[0]
        port = max((self._cluster.get("highest_used_port") or 0) + 1, _FIRST_PORT)
        self._cluster["highest_used_port"] = port
        return port

    @property
    def _cluster(self) -> _Object:
        return cast(_Object, self.config["cluster"])

    def _table(self, name: str) -> dict[str, _Object]:
        return cast(dict[str, _Object], self.config.setdefault(name, {}))

    def _instance(self, uuid: str) -> _Object:
        return self._known(self._table("instances"), uuid, "instances")

    def _guard_instance(self, name: str) -> None:
        self.guard(member_lock(LockLevel.INSTANCE, name))

    def _known(self, place: dict[str, _Object], uuid: str, table: str) -> _Object:
        if uuid not in place:
            raise _refusal(f"there is no object {uuid} among the {table}")
        return place[uuid]


def _refusal(text: str) -> RemoteError:
    return RemoteError(text, code="conflict", wire_name="ConfigurationError")
