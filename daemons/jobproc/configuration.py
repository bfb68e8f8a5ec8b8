"""The cluster's configuration for a unit: typed reads, and changes of single objects.

wconfd refuses a change at once while an owner has locked the whole configuration, and no event reports the
release. So the change is tried again, with growing pauses.

Source: DESIGN section 7; wconfd.md 2.3.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self, TypeVar, assert_never

import attrs

from common.errors import ConfigVerifyError, JobCanceled, RemoteError, Unavailable
from common.locks import Owner
from common.objects.codec import decode_config, decode_object, to_json
from common.objects.config import (
    AnyDisk,
    AnyInstance,
    Cluster,
    Config,
    Disk,
    ForthcomingDisk,
    ForthcomingInstance,
    Instance,
    Network,
    Node,
    NodeGroup,
)
from common.objects.index import ConfigIndex
from common.objects.kinds import AdminState, AdminStateSource, GroupUuid, NetworkUuid, NodeUuid, TagKind
from protocol.blocking import BlockingClient
from protocol.messages import Request
from protocol.unixsocket import pauses
from protocol.wconfd import changes
from protocol.wconfd.config import ReadConfig, RedistributeConfig, VerifyConfig

R = TypeVar("R")
V = TypeVar("V", Cluster, Node, NodeGroup, Network, AnyInstance, AnyDisk)

# seconds for which others may keep the whole configuration locked
PATIENCE_S: Final = 60.0


@attrs.frozen
class Wconfd:
    """A unit's access to wconfd."""

    connect: Callable[[], BlockingClient]
    # owner of the job, to which reserved addresses belong
    owner: Owner
    # function that waits some seconds; returns whether the job is to be canceled
    pause: Callable[[float], bool]
    # function to call after each change
    changed: Callable[[], None]


class UnitConfig(ConfigIndex):
    """The configuration at the time of reading, with its indexes; and changes of single objects.

    A change is durable when its method returns. It is not visible in this object, but in the new object that
    `UnitContext.config` then returns. Objects are named by their UUIDs.

    Raises, by each change:
        RemoteError: wconfd refuses it, with the reason; nothing was changed.
        Unavailable: another owner keeps the whole configuration locked, and nothing was changed; or wconfd is away.
        JobCanceled: the job is to be canceled, and nothing was changed.
    """

    def __init__(self, config: Config, wconfd: Wconfd) -> None:
        super().__init__(config)
        self._wconfd = wconfd

    @classmethod
    def read(cls, wconfd: Wconfd) -> Self:
        """Read the whole configuration from wconfd.

        Raises: Unavailable: wconfd did not reply for minutes. RemoteError. InvalidRequest: it has another format.
        """
        with wconfd.connect() as client:
            return cls(decode_config(client.call_retrying(ReadConfig())), wconfd)

    def add_instance(self, instance: AnyInstance, *, replace: bool = False) -> None:
        """Add an instance, or replace it; the addresses that the job has reserved for it become permanent."""
        self._make(changes.AddInstance(to_json(instance), self._wconfd.owner, replace))

    def remove_instance(self, instance: str) -> None:
        """Delete an instance, and free its port and addresses; its disks stay."""
        self._make(changes.RemoveInstance(instance))

    def set_instance_status(
        self,
        instance: str,
        admin_state: AdminState | None = None,
        *,
        disks_active: bool | None = None,
        admin_state_source: AdminStateSource | None = None,
    ) -> AnyInstance:
        """Set the given values; return the instance after that."""
        request = changes.SetInstanceStatus(instance, admin_state, disks_active, admin_state_source)
        return decode_object(self._ask(request), AnyInstance, "instance")  # type: ignore[arg-type]  # a union

    def set_primary_node(self, instance: str, node: str) -> None:
        self._make(changes.SetInstancePrimaryNode(instance, node))

    def add_disk(self, instance: str, disk: AnyDisk, index: int | None = None, *, replace: bool = False) -> None:
        """Add a disk, or replace it, and attach it.

        Args: index: place among the instance's disks; None: the last.
        """
        self._make(changes.AddInstanceDisk(instance, to_json(disk), index, replace))

    def attach_disk(self, instance: str, disk: str, index: int | None = None) -> None:
        self._make(changes.AttachInstanceDisk(instance, disk, index))

    def detach_disk(self, instance: str, disk: str) -> None:
        """Detach a disk from an instance; it stays in the configuration."""
        self._make(changes.DetachInstanceDisk(instance, disk))

    def remove_disk(self, instance: str, disk: str) -> None:
        """Detach a disk from an instance, and delete it."""
        self._make(changes.RemoveInstanceDisk(instance, disk))

    def allocate_port(self) -> int:
        """Take a free TCP or UDP port."""
        return self._ask(changes.AllocatePort())

    def return_port(self, port: int) -> None:
        self._make(changes.AddTcpUdpPort(port))

    def update(self, changed: V) -> V:
        """Replace an object by a changed one; refused if it was changed since it was read.

        Args: changed: object with the serial number from its reading.
        Returns: the object with its new serial number and time, for a further change.
        """
        serial_no, mtime = self._ask(_update_of(changed))
        return attrs.evolve(changed, serial_no=serial_no, mtime=mtime)

    def change_nodes(
        self,
        nodes: Sequence[Node] = (),
        *,
        removed: Sequence[NodeUuid] = (),
        certificates: Mapping[NodeUuid, str] | None = None,
        may_fall_short: bool = False,
        candidate_pool_size: int | None = None,
    ) -> None:
        """Add, replace and remove nodes in one change; the certificates of candidates follow from the roles.

        Args:
            nodes: as they should be; a new one with the serial number 0.
            certificates: digests, at least those of the nodes that become candidates.
            may_fall_short: whether fewer candidates may be left than the pool should have.
            candidate_pool_size: new size of the pool; None: as it is.
        """
        call = changes.ChangeNodes(
            nodes=tuple(map(to_json, nodes)),
            removed=tuple(removed),
            certificates=certificates or {},
            may_fall_short=may_fall_short,
            candidate_pool_size=candidate_pool_size,
        )
        self._ask(call)

    def change_groups(self, groups: Sequence[NodeGroup] = (), *, removed: Sequence[GroupUuid] = ()) -> None:
        """Add, replace and remove node groups in one change.

        Args: groups: as they should be; a new one with the serial number 0.
        """
        self._ask(changes.ChangeGroups(groups=tuple(map(to_json, groups)), removed=tuple(removed)))

    def change_tags(self, kind: TagKind, uuid: str, *, added: Sequence[str] = (), removed: Sequence[str] = ()) -> None:
        """Add tags to an object and remove tags from it, whatever else of it has changed since it was read.

        Args: uuid: ignored for the cluster.
        """
        self._make(changes.ChangeTags(kind=kind, uuid=uuid, added=tuple(added), removed=tuple(removed)))

    def change_networks(self, networks: Sequence[Network] = (), *, removed: Sequence[NetworkUuid] = ()) -> None:
        """Add, replace and remove networks in one change; what instances have taken of their pools stays.

        Args: networks: as they should be; a new one with the serial number 0.
        """
        self._ask(changes.ChangeNetworks(networks=tuple(map(to_json, networks)), removed=tuple(removed)))

    def change_cluster(self, after: Cluster) -> None:
        """Set the values of the cluster that differ from those that were read, and leave all others.

        Args: after: the cluster as it should be; nothing happens if it is so already.
        """
        old, new = to_json(self.cluster), to_json(after)
        values = {key: new.get(key) for key in {**old, **new} if old.get(key) != new.get(key)}
        if values:
            self._ask(changes.ChangeCluster(values=values, serial_no=self.cluster.serial_no))

    def wconfds_problems(self) -> Sequence[str]:
        """What wconfd finds inconsistent in its configuration; nothing if all is well."""
        with self._wconfd.connect() as client:
            try:
                client.call_retrying(VerifyConfig())
            except RemoteError as error:
                match error.wire_args():
                    case [_, [*problems]] if error.wire_name == ConfigVerifyError.wire_name:
                        return list(map(str, problems))
                raise
        return ()

    def redistribute(self) -> tuple[str, ...]:
        """Have the configuration sent to all nodes again; return the names of those that were not reached."""
        with self._wconfd.connect() as client:
            return client.call_retrying(RedistributeConfig())

    def _make(self, request: Request[bool]) -> None:
        self._until(lambda client: client.call_retrying(request) or None)

    def _ask(self, request: Request[R | None]) -> R:
        return self._until(lambda client: client.call_retrying(request))

    def _until(self, ask: Callable[[BlockingClient], R | None]) -> R:
        """Repeat the call until its result is not None, which means that the configuration is locked."""
        deadline = time.monotonic() + PATIENCE_S
        with self._wconfd.connect() as client:
            for pause in pauses():
                if (answer := ask(client)) is not None:
                    self._wconfd.changed()
                    return answer
                if time.monotonic() + pause >= deadline:
                    break
                if self._wconfd.pause(pause):
                    raise JobCanceled("canceled while somebody else had locked the configuration")
        raise Unavailable(
            f"somebody has kept the configuration locked for {PATIENCE_S:g} s; 'gnt-debug locks' shows who holds "
            "'cluster/config'"
        )


def _update_of(changed: Cluster | Node | NodeGroup | Network | AnyInstance | AnyDisk) -> changes.UpdateCall:
    value = to_json(changed)
    match changed:
        case Cluster():
            return changes.UpdateCluster(value)
        case Node():
            return changes.UpdateNode(value)
        case NodeGroup():
            return changes.UpdateNodeGroup(value)
        case Network():
            return changes.UpdateNetwork(value)
        case Instance() | ForthcomingInstance():
            return changes.UpdateInstance(value)
        case Disk() | ForthcomingDisk():
            return changes.UpdateDisk(value)
        case _:
            assert_never(changed)
