"""Changes of single objects: each is a function of the core, made while no owner holds the configuration's lock.

Ganeti's calls are refused while an owner does; those of filter rules and limits, which are ours, wait until it is
released.

Source: wconfd.md 2.3; the filter rules' are ours.
"""

import uuid as uuids
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

import attrs

from common.errors import Conflict, Unavailable
from common.locks import BGL, LockMode, LockRequest, Owner
from common.objects.codec import decode_object, to_json
from common.objects.config import AnyDisk, AnyInstance, Cluster, Config, Network, Node, NodeGroup
from common.objects.filter import FilterRule
from common.objects.kinds import NodeUuid
from common.shapes import JsonObject
from common.system.log import get_log
from common.wire import unstructure
from daemons.wconfd.configstore import ConfigStore, Step, UpdateStep
from daemons.wconfd.core.config import changes, instances
from daemons.wconfd.core.config.configstate import Delivery, Stamp, advanced
from daemons.wconfd.core.config.groupchanges import GroupChange, NetworkChange, change_groups, change_networks
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from daemons.wconfd.core.locks.waiting import try_update, update_or_queue
from daemons.wconfd.filestores import ReservationStore
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.shortlock import ConfigChanger, ShortLock
from protocol.messages import AnyRequest
from protocol.peer import Peer
from protocol.wconfd.changes import (
    AddInstance,
    AddInstanceDisk,
    AddTcpUdpPort,
    AllocatePort,
    AttachInstanceDisk,
    ChangeCluster,
    ChangeGroups,
    ChangeJobLimits,
    ChangeNetworks,
    ChangeNodes,
    ChangeTags,
    DeleteFilterRule,
    DetachInstanceDisk,
    PrepareClusterDestruction,
    RemoveInstance,
    RemoveInstanceDisk,
    ReplaceFilterRule,
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
from protocol.wconfd.locks import Unit

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
            return instances.add_disk(config, call.instance, disk, call.index, now, replace=call.replace)

        return await self._make(call, peer, change) and await self._release_minors(disk.uuid)

    async def attach_instance_disk(self, call: AttachInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call,
            peer,
            lambda config, now: instances.attach_disk(config, call.instance, call.disk, call.index, now),
        )

    async def detach_instance_disk(self, call: DetachInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call, peer, lambda config, now: instances.detach_disk(config, call.instance, call.disk, now)
        )

    async def remove_instance_disk(self, call: RemoveInstanceDisk, peer: Peer) -> bool:
        return await self._make(
            call, peer, lambda config, now: instances.remove_disk(config, call.instance, call.disk, now)
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
        return await self._ask(call, peer, instances.allocate_port)

    async def add_tcp_udp_port(self, call: AddTcpUdpPort, peer: Peer) -> bool:
        return await self._make(call, peer, lambda config, now: instances.add_port(config, call.port, now))

    async def change_cluster(self, call: ChangeCluster, peer: Peer) -> Stamp | None:
        return await self._ask_once(
            call,
            peer,
            lambda config, now, told: changes.change_cluster(config, call.values, call.serial_no, now, told),
        )

    async def change_nodes(self, call: ChangeNodes, peer: Peer) -> Stamp | None:
        change = NodeChange(
            nodes=tuple(decode_object(node, Node, "node") for node in call.nodes),
            removed=call.removed,
            certificates=call.certificates,
            may_fall_short=call.may_fall_short,
            candidate_pool_size=call.candidate_pool_size,
        )
        return await self._ask_once(call, peer, lambda config, now, told: change_nodes(config, change, now, told))

    async def change_groups(self, call: ChangeGroups, peer: Peer) -> Stamp | None:
        groups = tuple(decode_object(group, NodeGroup, "node group") for group in call.groups)
        change = GroupChange(groups=groups, removed=call.removed)
        return await self._ask_once(call, peer, lambda config, now, told: change_groups(config, change, now, told))

    async def change_networks(self, call: ChangeNetworks, peer: Peer) -> Stamp | None:
        networks = tuple(decode_object(network, Network, "network") for network in call.networks)
        change = NetworkChange(networks=networks, removed=call.removed)
        return await self._ask_once(call, peer, lambda config, now, told: change_networks(config, change, now, told))

    async def change_tags(self, call: ChangeTags, peer: Peer) -> bool:
        """A second delivery finds what it wants already there."""
        return await self._make(
            call,
            peer,
            lambda config, now: changes.change_tags(config, call.kind.value, call.uuid, call.added, call.removed, now),
        )

    async def update_cluster(self, call: UpdateCluster, peer: Peer) -> Stamp | None:
        given = decode_object(call.object, Cluster, "cluster")
        return await self._ask_once(
            call, peer, lambda config, now, told: changes.update_cluster(config, given, now, told)
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

    async def replace_filter(self, call: ReplaceFilterRule, peer: Peer) -> str:
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
        await self._wait(call, peer, lambda config, now: changes.replace_filter(config, rule, now, call.condition))
        return uuid

    async def delete_filter(self, call: DeleteFilterRule, peer: Peer) -> bool:
        await self._wait(call, peer, lambda config, now: changes.delete_filter(config, call.uuid, now, call.condition))
        return True

    async def set_job_limits(self, call: ChangeJobLimits, peer: Peer) -> bool:
        await self._wait(
            call,
            peer,
            lambda config, now: changes.set_job_limits(config, call.max_running_jobs, call.max_tracked_jobs, now),
        )
        return True

    async def _wait(self, call: AnyRequest, peer: Peer, change: Callable[[Config, float], Config]) -> None:
        """Make a change as soon as the configuration's lock is free."""
        await self._short_lock.wait_and_change(None, lambda config, now: (change(config, now), None), PATIENCE_S)
        _log.info("config.changed", method=call.METHOD, by=peer, refused=False)

    async def _update(self, call: UpdateCall, peer: Peer, table: str, given: changes.Counted) -> Stamp | None:
        return await self._ask_once(
            call, peer, lambda config, now, told: changes.update_object(config, table, given, now, told)
        )

    async def _ask_once(self, call: AnyRequest, peer: Peer, step: UpdateStep) -> Stamp | None:
        """Make an update once, even if it is delivered several times; None: the client must try again.

        Args: call: one with the serial numbers of what it changes, so that equal calls want one change.
        """
        value = call.object if isinstance(call, UpdateCall) else unstructure(call)
        assert isinstance(value, Mapping)
        stamp = await self._short_lock.update(Delivery.of(value), step, ConfigChanger(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp

    async def _make(self, call: AnyRequest, peer: Peer, change: Callable[[Config, float], Config]) -> bool:
        """Make a change without a result of its own; false: the client must try again."""
        return await self._ask(call, peer, lambda config, now: (change(config, now), True)) or False

    async def _ask(self, call: AnyRequest, peer: Peer, step: Step[T]) -> T | None:
        """Make a change; None: the client must try again."""
        done = await self._short_lock.change(step, ConfigChanger(call.METHOD, peer))
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


# The end of the cluster.
#
# Source: wconfd.md 2.5.


# priority before all others
_FIRST: Final = -21
_EXCLUSIVE: Final = (LockRequest(BGL, LockMode.EXCLUSIVE),)
_RELEASE: Final = (LockRequest(BGL, None),)


@attrs.frozen
class DestructionHandlers:
    _config: ConfigStore
    _locks: LockStore
    # the daemon itself as an owner: without a pid, because it needs no signal for its grants
    _own: Owner

    async def prepare_cluster_destruction(self, call: PrepareClusterDestruction, peer: Peer) -> Unit:
        """A second delivery does nothing: the daemon has the BGL then, and needs nothing from the caller."""
        if self._mode(self._own) is not LockMode.EXCLUSIVE:
            if self._mode(call.owner) is not LockMode.EXCLUSIVE:
                raise Conflict(
                    f"to destroy the cluster one must hold the lock 'cluster/BGL' exclusively, which {call.owner} "
                    "does not; take it with updateLocksWaiting",
                    owner=str(call.owner),
                )
            await self._locks.change(self._own, lambda state: update_or_queue(state, self._own, _FIRST, _EXCLUSIVE))
            await self._locks.change(call.owner, lambda state: try_update(state, call.owner, _RELEASE))
        await self._config.change(_without_master)
        _log.warning("cluster.destroyed", owner=call.owner, by=peer, effect="nobody gets the BGL any more")
        return ()

    def _mode(self, owner: Owner) -> LockMode | None:
        return self._locks.state.table.mode_of(owner, BGL)


def _without_master(config: Config, now: float) -> tuple[Config, None]:
    after = attrs.evolve(config, cluster=attrs.evolve(config.cluster, master_node=NodeUuid("")))
    return advanced(config, after, now), None
