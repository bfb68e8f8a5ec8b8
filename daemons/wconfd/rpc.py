"""wconfd's methods: method name, request class and handler, one row each.

Source: wconfd.md section 2.
"""

import attrs

from common.access import Role
from daemons.wconfd.handlers.changes import ChangeHandlers, DestructionHandlers
from daemons.wconfd.handlers.config import ConfigHandlers
from daemons.wconfd.handlers.events import SubscriptionHandlers, WconfdMetricHandlers
from daemons.wconfd.handlers.keptrows import ResourceHandlers, ScheduleHandlers, SessionHandlers
from daemons.wconfd.handlers.locks import ExplainingHandlers, LockHandlers, OrphanHandlers
from daemons.wconfd.handlers.reservations import ReservationHandlers
from protocol.peer import Peer
from protocol.serving.route import AnyRoute, Route
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
    DeleteFilter,
    DetachInstanceDisk,
    PrepareClusterDestruction,
    RemoveInstance,
    RemoveInstanceDisk,
    ReplaceFilter,
    SetInstancePrimaryNode,
    SetInstanceStatus,
    SetJobLimits,
    UpdateCluster,
    UpdateDisk,
    UpdateInstance,
    UpdateNetwork,
    UpdateNode,
    UpdateNodeGroup,
)
from protocol.wconfd.config import (
    ChangeSessions,
    FlushConfig,
    FlushConfigGroup,
    FollowSessions,
    GetConfigStatus,
    GetObject,
    ListNodesBehind,
    LockConfig,
    PutSchedule,
    ReadConfig,
    ReadResources,
    ReadSchedules,
    RedistributeConfig,
    ReloadConfig,
    RemoveResource,
    RemoveSchedule,
    SetResource,
    SettleRuns,
    UnlockConfig,
    VerifyConfig,
    WriteConfig,
    WriteConfigAndUnlock,
)
from protocol.wconfd.daemon import ListLockViolations, ReadMetrics, VerifyConfigCopies
from protocol.wconfd.locks import (
    AdoptLocks,
    ClaimLocks,
    CleanupLocks,
    DownGradeLocksLevel,
    Echo,
    ExplainHoldings,
    ExplainWait,
    FreeLocks,
    FreeLocksLevel,
    GuardedOpportunisticLockUnion,
    HasPendingRequest,
    IntersectLocks,
    KeepLocks,
    ListAllLocks,
    ListAllLocksOwners,
    ListLocks,
    ListLocksWaitingStatus,
    ListOrphanedLocks,
    OpportunisticLockUnion,
    ReleaseKeptLocks,
    Subscribe,
    TryUpdateLocks,
    UpdateLocksWaiting,
    WaitLocks,
)
from protocol.wconfd.reservations import (
    AllocateDrbdMinor,
    CommitReleaseTemporaryIp,
    CommitTemporaryIps,
    ComputeDrbdMap,
    DropAllReservations,
    GenerateDrbdSecret,
    GenerateIp,
    GenerateMac,
    ListReservedIps,
    ReleaseDrbdMinors,
    ReleaseIp,
    ReserveIp,
    ReserveLv,
    ReserveMac,
)


@attrs.frozen
class WconfdHandlers:
    """The handlers, by noun."""

    locks: LockHandlers
    orphans: OrphanHandlers
    explaining: ExplainingHandlers
    events: SubscriptionHandlers
    config: ConfigHandlers
    changes: ChangeHandlers
    reservations: ReservationHandlers
    destruction: DestructionHandlers
    metrics: WconfdMetricHandlers
    resources: ResourceHandlers
    schedules: ScheduleHandlers
    sessions: SessionHandlers


def routes(to: WconfdHandlers) -> list[AnyRoute]:
    """Return the table. Other users may only look here; the configuration, which has secrets, is for operators.

    Job processes and luxid run as the daemons' user; so locks and changes are for callers with all rights.
    """
    return [
        Route(Echo, _echo, role=Role.READ),
        Route(ListLocks, to.locks.list_locks, role=Role.READ),
        Route(ListAllLocks, to.locks.list_all_locks, role=Role.READ),
        Route(ListAllLocksOwners, to.locks.list_all_locks_owners, role=Role.READ),
        Route(ListLocksWaitingStatus, to.locks.list_locks_waiting_status, role=Role.READ),
        Route(TryUpdateLocks, to.locks.try_update_locks, role=Role.FULL),
        Route(UpdateLocksWaiting, to.locks.update_locks_waiting, role=Role.FULL),
        Route(HasPendingRequest, to.locks.has_pending_request, role=Role.READ),
        Route(WaitLocks, to.locks.wait_locks, only_waits=True, role=Role.FULL),
        Route(FreeLocks, to.locks.free_locks, role=Role.FULL),
        Route(FreeLocksLevel, to.locks.free_locks_level, role=Role.FULL),
        Route(DownGradeLocksLevel, to.locks.down_grade_locks_level, role=Role.FULL),
        Route(IntersectLocks, to.locks.intersect_locks, role=Role.FULL),
        Route(OpportunisticLockUnion, to.locks.opportunistic_lock_union, role=Role.FULL),
        Route(GuardedOpportunisticLockUnion, to.locks.guarded_opportunistic_lock_union, role=Role.FULL),
        Route(CleanupLocks, to.locks.cleanup_locks, role=Role.FULL),
        Route(KeepLocks, to.orphans.keep_locks, role=Role.FULL),
        Route(ReleaseKeptLocks, to.orphans.release_kept_locks, role=Role.FULL),
        Route(AdoptLocks, to.orphans.adopt_locks, role=Role.FULL),
        Route(ClaimLocks, to.orphans.claim_locks, role=Role.FULL),
        Route(ListOrphanedLocks, to.orphans.list_orphaned_locks, role=Role.READ),
        Route(Subscribe, to.events.subscribe, role=Role.READ),
        Route(ExplainWait, to.explaining.explain_wait, role=Role.READ),
        Route(ExplainHoldings, to.explaining.explain_holdings, role=Role.READ),
        Route(ReadConfig, to.config.read_config, role=Role.OPERATE),
        Route(VerifyConfig, to.config.verify_config, role=Role.READ),
        Route(LockConfig, to.config.lock_config, role=Role.FULL),
        Route(UnlockConfig, to.config.unlock_config, role=Role.FULL),
        Route(WriteConfig, to.config.write_config, role=Role.FULL),
        Route(WriteConfigAndUnlock, to.config.write_config_and_unlock, role=Role.FULL),
        Route(FlushConfig, to.config.flush_config, role=Role.FULL),
        Route(FlushConfigGroup, to.config.flush_config_group, role=Role.FULL),
        Route(RedistributeConfig, to.config.redistribute_config, role=Role.FULL),
        Route(ListNodesBehind, to.config.list_nodes_behind, role=Role.READ),
        Route(VerifyConfigCopies, to.config.verify_config_copies, role=Role.OPERATE),
        Route(GetObject, to.config.get_object, role=Role.OPERATE),
        Route(GetConfigStatus, to.config.config_status, role=Role.READ),
        Route(ReloadConfig, to.config.reload_config, role=Role.FULL),
        Route(AddInstance, to.changes.add_instance, role=Role.FULL),
        Route(AddInstanceDisk, to.changes.add_instance_disk, role=Role.FULL),
        Route(AttachInstanceDisk, to.changes.attach_instance_disk, role=Role.FULL),
        Route(DetachInstanceDisk, to.changes.detach_instance_disk, role=Role.FULL),
        Route(RemoveInstanceDisk, to.changes.remove_instance_disk, role=Role.FULL),
        Route(RemoveInstance, to.changes.remove_instance, role=Role.FULL),
        Route(SetInstanceStatus, to.changes.set_instance_status, role=Role.FULL),
        Route(SetInstancePrimaryNode, to.changes.set_instance_primary_node, role=Role.FULL),
        Route(AllocatePort, to.changes.allocate_port, role=Role.FULL),
        Route(AddTcpUdpPort, to.changes.add_tcp_udp_port, role=Role.FULL),
        Route(UpdateCluster, to.changes.update_cluster, role=Role.FULL),
        Route(UpdateNode, to.changes.update_node, role=Role.FULL),
        Route(UpdateInstance, to.changes.update_instance, role=Role.FULL),
        Route(UpdateNodeGroup, to.changes.update_node_group, role=Role.FULL),
        Route(UpdateNetwork, to.changes.update_network, role=Role.FULL),
        Route(UpdateDisk, to.changes.update_disk, role=Role.FULL),
        Route(ChangeNodes, to.changes.change_nodes, role=Role.FULL),
        Route(ChangeGroups, to.changes.change_groups, role=Role.FULL),
        Route(ChangeTags, to.changes.change_tags, role=Role.FULL),
        Route(ChangeNetworks, to.changes.change_networks, role=Role.FULL),
        Route(ReplaceFilter, to.changes.replace_filter, role=Role.FULL),
        Route(DeleteFilter, to.changes.delete_filter, role=Role.FULL),
        Route(SetJobLimits, to.changes.set_job_limits, role=Role.FULL),
        Route(DropAllReservations, to.reservations.drop_all, role=Role.FULL),
        Route(ComputeDrbdMap, to.reservations.compute_drbd_map, role=Role.OPERATE),
        Route(AllocateDrbdMinor, to.reservations.allocate_drbd_minor, role=Role.FULL),
        Route(ReleaseDrbdMinors, to.reservations.release_drbd_minors, role=Role.FULL),
        Route(GenerateMac, to.reservations.generate_mac, role=Role.FULL),
        Route(ReserveMac, to.reservations.reserve_mac, role=Role.FULL),
        Route(GenerateDrbdSecret, to.reservations.generate_drbd_secret, role=Role.FULL),
        Route(ReserveLv, to.reservations.reserve_lv, role=Role.FULL),
        Route(ReserveIp, to.reservations.reserve_ip, role=Role.FULL),
        Route(ReleaseIp, to.reservations.release_ip, role=Role.FULL),
        Route(GenerateIp, to.reservations.generate_ip, role=Role.FULL),
        Route(ListReservedIps, to.reservations.list_reserved_ips, role=Role.READ),
        Route(CommitTemporaryIps, to.reservations.commit_temporary_ips, role=Role.FULL),
        Route(CommitReleaseTemporaryIp, to.reservations.commit_release_temporary_ip, role=Role.FULL),
        Route(ChangeCluster, to.changes.change_cluster, role=Role.FULL),
        Route(PrepareClusterDestruction, to.destruction.prepare_cluster_destruction, role=Role.FULL),
        Route(ReadResources, to.resources.read_resources, role=Role.READ),
        Route(SetResource, to.resources.set_resource, role=Role.FULL),
        Route(RemoveResource, to.resources.remove_resource, role=Role.FULL),
        # jobs of schedules have arguments, which are not for all
        Route(ReadSchedules, to.schedules.read_schedules, role=Role.OPERATE),
        Route(PutSchedule, to.schedules.put_schedule, role=Role.FULL),
        Route(RemoveSchedule, to.schedules.remove_schedule, role=Role.FULL),
        Route(SettleRuns, to.schedules.settle_runs, role=Role.FULL),
        Route(FollowSessions, to.sessions.follow_sessions, only_waits=True, role=Role.READ),
        Route(ChangeSessions, to.sessions.change_sessions, role=Role.READ),
        Route(ListLockViolations, to.config.list_lock_violations, role=Role.OPERATE),
        Route(ReadMetrics, to.metrics.read_metrics, role=Role.READ),
    ]


async def _echo(call: Echo, _: Peer) -> str:
    return call.text
