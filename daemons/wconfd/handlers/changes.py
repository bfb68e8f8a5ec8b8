"""Changes of single objects: each is a function of the core, made while no owner holds the configuration's lock.

Ganeti's calls are refused while an owner does; those of filter rules and limits, which are ours, wait until it is
released.

Source: wconfd.md 2.3; the filter rules' are ours.
"""

import uuid as uuids
from collections.abc import Callable
from typing import Final, TypeVar, cast

import attrs

from common.errors import Unavailable
from common.objects.cluster import Cluster
from common.objects.codec import decode_object, to_json
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.filter import FilterRule
from common.objects.instance import AnyInstance
from common.objects.networks.network import Network
from common.objects.node import Node
from common.objects.nodegroup import NodeGroup
from common.shapes import JsonObject
from common.system.log import get_log
from daemons.wconfd.configstore import Step, UpdateStep
from daemons.wconfd.core.config import filterrules, instancedisks, instances, limits, objectupdates, ports
from daemons.wconfd.core.config.deliveries import Delivery, Stamp
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.shortlock import ShortLock
from daemons.wconfd.tempresstore import ReservationStore
from protocol.messages import AnyRequest
from protocol.peer import Peer
from protocol.wconfd.changes import (
    AddInstance,
    AddInstanceDisk,
    AddTcpUdpPort,
    AllocatePort,
    AttachInstanceDisk,
    DeleteFilter,
    DetachInstanceDisk,
    RemoveInstance,
    RemoveInstanceDisk,
    ReplaceFilter,
    SetInstancePrimaryNode,
    SetInstanceStatus,
    SetJobLimits,
    UpdateCall,
    UpdateCluster,
    UpdateDisk,
    UpdateInstance,
    UpdateNetwork,
    UpdateNode,
    UpdateNodeGroup,
)

T = TypeVar("T")

# seconds for which one of our own changes waits for the configuration's lock
PATIENCE_S: Final = 10.0
# unions, which the type checker does not take for classes
_INSTANCE: Final = cast(type[AnyInstance], AnyInstance)
_DISK: Final = cast(type[AnyDisk], AnyDisk)
_log: Final = get_log(__name__)


@attrs.frozen
class ChangeHandlers:
    _short_lock: ShortLock
    _reservations: ReservationStore

    async def add_instance(self, call: AddInstance, peer: Peer) -> bool:
        given = decode_object(call.instance, _INSTANCE, "instance")

        def change(config: Config, now: float) -> Config:
            notes = self._reservations.state.ips.of(call.owner)
            return instances.add_instance(config, given, notes, now, replace=call.replace)

        return await self._make(call, peer, change) and await self._release_minors(*given.disks)

    async def add_instance_disk(self, call: AddInstanceDisk, peer: Peer) -> bool:
        disk = decode_object(call.disk, _DISK, "disk")

        def change(config: Config, now: float) -> Config:
            return instancedisks.add_disk(config, call.instance, disk, call.index, now, replace=call.replace)

        return await self._make(call, peer, change) and await self._release_minors(disk.uuid)

    async def attach_instance_disk(self, call: AttachInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call,
            peer,
            lambda config, now: instancedisks.attach_disk(config, call.instance, call.disk, call.index, now),
        )

    async def detach_instance_disk(self, call: DetachInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call, peer, lambda config, now: instancedisks.detach_disk(config, call.instance, call.disk, now)
        )

    async def remove_instance_disk(self, call: RemoveInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call, peer, lambda config, now: instancedisks.remove_disk(config, call.instance, call.disk, now)
        )

    async def remove_instance(self, call: RemoveInstance, peer: Peer) -> bool:
        return await self._make(call, peer, lambda config, now: instances.remove_instance(config, call.instance, now))

    async def set_instance_status(self, call: SetInstanceStatus, peer: Peer) -> JsonObject | None:
        def step(config: Config, now: float) -> tuple[Config, AnyInstance]:
            return instances.set_instance_status(
                config, call.instance, call.admin_state, call.disks_active, call.admin_state_source, now
            )

        instance = await self._ask(call, peer, step)
        return None if instance is None else to_json(instance)

    async def set_instance_primary_node(self, call: SetInstancePrimaryNode, peer: Peer) -> bool:
        return await self._make(
            call, peer, lambda config, now: instances.set_primary_node(config, call.instance, call.node, now)
        )

    async def allocate_port(self, call: AllocatePort, peer: Peer) -> int | None:
        return await self._ask(call, peer, ports.allocate_port)

    async def add_tcp_udp_port(self, call: AddTcpUdpPort, peer: Peer) -> bool:
        return await self._make(call, peer, lambda config, now: ports.add_port(config, call.port, now))

    async def update_cluster(self, call: UpdateCluster, peer: Peer) -> Stamp | None:
        given = decode_object(call.object, Cluster, "cluster")
        return await self._ask_once(
            call, peer, lambda config, now, told: objectupdates.update_cluster(config, given, now, told)
        )

    async def update_node(self, call: UpdateNode, peer: Peer) -> Stamp | None:
        return await self._update(call, peer, "nodes", decode_object(call.object, Node, "node"))

    async def update_instance(self, call: UpdateInstance, peer: Peer) -> Stamp | None:
        return await self._update(call, peer, "instances", decode_object(call.object, _INSTANCE, "instance"))

    async def update_node_group(self, call: UpdateNodeGroup, peer: Peer) -> Stamp | None:
        return await self._update(call, peer, "nodegroups", decode_object(call.object, NodeGroup, "node group"))

    async def update_network(self, call: UpdateNetwork, peer: Peer) -> Stamp | None:
        return await self._update(call, peer, "networks", decode_object(call.object, Network, "network"))

    async def update_disk(self, call: UpdateDisk, peer: Peer) -> Stamp | None:
        disk = decode_object(call.object, _DISK, "disk")
        stamp = await self._update(call, peer, "disks", disk)
        if stamp is not None:
            await self._release_minors(disk.uuid)
        return stamp

    async def replace_filter(self, call: ReplaceFilter, peer: Peer) -> str:
        uuid = call.uuid or str(uuids.uuid4())
        value = {
            "uuid": uuid,
            "priority": call.priority,
            "predicates": list(call.predicates),
            "action": call.action,
            "reason_trail": [entry.to_wire() for entry in call.reason_trail],
            "watermark": call.watermark,
        }
        rule = decode_object(value, FilterRule, "filter rule")
        await self._wait(call, peer, lambda config, now: filterrules.replace_filter(config, rule, now))
        return uuid

    async def delete_filter(self, call: DeleteFilter, peer: Peer) -> bool:
        await self._wait(call, peer, lambda config, now: filterrules.delete_filter(config, call.uuid, now))
        return True

    async def set_job_limits(self, call: SetJobLimits, peer: Peer) -> bool:
        await self._wait(
            call,
            peer,
            lambda config, now: limits.set_job_limits(config, call.max_running_jobs, call.max_tracked_jobs, now),
        )
        return True

    async def _wait(self, call: AnyRequest, peer: Peer, change: Callable[[Config, float], Config]) -> None:
        """Make a change as soon as the configuration's lock is free."""
        await self._short_lock.wait_and_change(None, lambda config, now: (change(config, now), None), PATIENCE_S)
        _log.info("config.changed", method=call.METHOD, by=peer, refused=False)

    async def _update(self, call: UpdateCall, peer: Peer, table: str, given: objectupdates.Counted) -> Stamp | None:
        return await self._ask_once(
            call, peer, lambda config, now, told: objectupdates.update_object(config, table, given, now, told)
        )

    async def _ask_once(self, call: UpdateCall, peer: Peer, step: UpdateStep) -> Stamp | None:
        """Make an update once, even if it is delivered several times; None: the client must try again."""
        stamp = await self._short_lock.update(Delivery.of(call.object), step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp

    async def _make(self, call: AnyRequest, peer: Peer, change: Callable[[Config, float], Config]) -> bool:
        """Make a change without a result of its own; false: the client must try again."""
        return await self._ask(call, peer, lambda config, now: (change(config, now), True)) or False

    async def _ask(self, call: AnyRequest, peer: Peer, step: Step[T]) -> T | None:
        """Make a change; None: the client must try again."""
        done = await self._short_lock.change(step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=done is None)
        return None if done is None else done[0]

    async def _release_minors(self, *disks: str) -> bool:
        """Release the minors of these disks, which the configuration now has."""
        try:
            await self._reservations.release_minors(*disks)
        except Unavailable as error:
            # the change itself is made; leftover minors are found at the next start
            _log.warning("minors.not_released", disks=disks, reason=error, effect="released at the next start")
        return True
