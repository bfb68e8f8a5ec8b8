"""wconfd's methods: method name, request class and handler, one row each.

Source: wconfd.md section 2.
"""

import attrs

from common.access import Role
from daemons.wconfd.handlers.changes import ChangeHandlers, DestructionHandlers
from daemons.wconfd.handlers.config import ConfigHandlers
from daemons.wconfd.handlers.events import StateHandlers
from daemons.wconfd.handlers.keptrows import KeptHandlers, SessionHandlers
from daemons.wconfd.handlers.locks import ExplainingHandlers, LockHandlers, OrphanHandlers
from daemons.wconfd.handlers.reservations import ReservationHandlers
from protocol.peer import Peer
from protocol.serving.route import AnyRoute, Route
from protocol.wconfd import changes, config, daemon, locks, reservations


@attrs.frozen
class WconfdHandlers:
    """The handlers, by noun."""

    locks: LockHandlers
    orphans: OrphanHandlers
    explaining: ExplainingHandlers
    config: ConfigHandlers
    changes: ChangeHandlers
    reservations: ReservationHandlers
    destruction: DestructionHandlers
    state: StateHandlers
    kept: KeptHandlers
    sessions: SessionHandlers


def routes(to: WconfdHandlers) -> list[AnyRoute]:
    """Return the table. Other users may only look here; the configuration, which has secrets, is for operators.

    Job processes and luxid run as the daemons' user; so locks and changes are for callers with all rights.
    """
    return [
        Route(locks.Echo, _echo, role=Role.READ),
        Route(locks.ListLocks, to.locks.list_locks, role=Role.READ),
        Route(locks.ListAllLocks, to.locks.list_all_locks, role=Role.READ),
        Route(locks.ListAllLocksOwners, to.locks.list_all_locks_owners, role=Role.READ),
        Route(locks.ListLocksWaitingStatus, to.locks.list_locks_waiting_status, role=Role.READ),
        Route(locks.TryUpdateLocks, to.locks.try_update_locks, role=Role.FULL),
        Route(locks.UpdateLocksWaiting, to.locks.update_locks_waiting, role=Role.FULL),
        Route(locks.HasPendingRequest, to.locks.has_pending_request, role=Role.READ),
        Route(locks.WaitLocks, to.locks.wait_locks, only_waits=True, role=Role.FULL),
        Route(locks.FreeLocks, to.locks.free_locks, role=Role.FULL),
        Route(locks.FreeLocksLevel, to.locks.free_locks_level, role=Role.FULL),
        Route(locks.DownGradeLocksLevel, to.locks.down_grade_locks_level, role=Role.FULL),
        Route(locks.IntersectLocks, to.locks.intersect_locks, role=Role.FULL),
        Route(locks.OpportunisticLockUnion, to.locks.opportunistic_lock_union, role=Role.FULL),
        Route(locks.GuardedOpportunisticLockUnion, to.locks.guarded_opportunistic_lock_union, role=Role.FULL),
        Route(locks.CleanupLocks, to.locks.cleanup_locks, role=Role.FULL),
        Route(locks.KeepLocks, to.orphans.keep_locks, role=Role.FULL),
        Route(locks.ReleaseKeptLocks, to.orphans.release_kept_locks, role=Role.FULL),
        Route(locks.AdoptLocks, to.orphans.adopt_locks, role=Role.FULL),
        Route(locks.ClaimLocks, to.orphans.claim_locks, role=Role.FULL),
        Route(locks.ListOrphanedLocks, to.orphans.list_orphaned_locks, role=Role.READ),
        Route(locks.SubscribeToChanges, to.state.subscribe, role=Role.READ),
        Route(locks.ExplainWait, to.explaining.explain_wait, role=Role.READ),
        Route(locks.ExplainHoldings, to.explaining.explain_holdings, role=Role.READ),
        Route(config.ReadConfig, to.config.read_config, role=Role.OPERATE),
        Route(config.VerifyConfig, to.config.verify_config, role=Role.READ),
        Route(config.LockConfig, to.config.lock_config, role=Role.FULL),
        Route(config.UnlockConfig, to.config.unlock_config, role=Role.FULL),
        Route(config.WriteConfig, to.config.write_config, role=Role.FULL),
        Route(config.WriteConfigAndUnlock, to.config.write_config_and_unlock, role=Role.FULL),
        Route(config.FlushConfig, to.config.flush_config, role=Role.FULL),
        Route(config.FlushConfigGroup, to.config.flush_config_group, role=Role.FULL),
        Route(config.RedistributeConfig, to.config.redistribute_config, role=Role.FULL),
        Route(config.ListNodesBehind, to.config.list_nodes_behind, role=Role.READ),
        Route(daemon.VerifyConfigCopies, to.config.verify_config_copies, role=Role.OPERATE),
        Route(config.GetObject, to.config.get_object, role=Role.OPERATE),
        Route(config.GetConfigStatus, to.config.config_status, role=Role.READ),
        Route(config.ReloadConfig, to.config.reload_config, role=Role.FULL),
        Route(changes.AddInstance, to.changes.add_instance, role=Role.FULL),
        Route(changes.AddInstanceDisk, to.changes.add_instance_disk, role=Role.FULL),
        Route(changes.AttachInstanceDisk, to.changes.attach_instance_disk, role=Role.FULL),
        Route(changes.DetachInstanceDisk, to.changes.detach_instance_disk, role=Role.FULL),
        Route(changes.RemoveInstanceDisk, to.changes.remove_instance_disk, role=Role.FULL),
        Route(changes.RemoveInstance, to.changes.remove_instance, role=Role.FULL),
        Route(changes.SetInstanceStatus, to.changes.set_instance_status, role=Role.FULL),
        Route(changes.SetInstancePrimaryNode, to.changes.set_instance_primary_node, role=Role.FULL),
        Route(changes.AllocatePort, to.changes.allocate_port, role=Role.FULL),
        Route(changes.AddTcpUdpPort, to.changes.add_tcp_udp_port, role=Role.FULL),
        Route(changes.UpdateCluster, to.changes.update_cluster, role=Role.FULL),
        Route(changes.UpdateNode, to.changes.update_node, role=Role.FULL),
        Route(changes.UpdateInstance, to.changes.update_instance, role=Role.FULL),
        Route(changes.UpdateNodeGroup, to.changes.update_node_group, role=Role.FULL),
        Route(changes.UpdateNetwork, to.changes.update_network, role=Role.FULL),
        Route(changes.UpdateDisk, to.changes.update_disk, role=Role.FULL),
        Route(changes.ChangeNodes, to.changes.change_nodes, role=Role.FULL),
        Route(changes.ChangeGroups, to.changes.change_groups, role=Role.FULL),
        Route(changes.ChangeTags, to.changes.change_tags, role=Role.FULL),
        Route(changes.ChangeNetworks, to.changes.change_networks, role=Role.FULL),
        Route(changes.ReplaceFilterRule, to.changes.replace_filter, role=Role.FULL),
        Route(changes.DeleteFilterRule, to.changes.delete_filter, role=Role.FULL),
        Route(changes.ChangeJobLimits, to.changes.set_job_limits, role=Role.FULL),
        Route(reservations.DropAllReservations, to.reservations.drop_all, role=Role.FULL),
        Route(reservations.ComputeDrbdMap, to.reservations.compute_drbd_map, role=Role.OPERATE),
        Route(reservations.AllocateDrbdMinor, to.reservations.allocate_drbd_minor, role=Role.FULL),
        Route(reservations.ReleaseDrbdMinors, to.reservations.release_drbd_minors, role=Role.FULL),
        Route(reservations.GenerateMac, to.reservations.generate_mac, role=Role.FULL),
        Route(reservations.ReserveMac, to.reservations.reserve_mac, role=Role.FULL),
        Route(reservations.GenerateDrbdSecret, to.reservations.generate_drbd_secret, role=Role.FULL),
        Route(reservations.ReserveLv, to.reservations.reserve_lv, role=Role.FULL),
        Route(reservations.ReserveIp, to.reservations.reserve_ip, role=Role.FULL),
        Route(reservations.ReleaseIp, to.reservations.release_ip, role=Role.FULL),
        Route(reservations.GenerateIp, to.reservations.generate_ip, role=Role.FULL),
        Route(reservations.ListReservedIps, to.reservations.list_reserved_ips, role=Role.READ),
        Route(reservations.CommitTemporaryIps, to.reservations.commit_temporary_ips, role=Role.FULL),
        Route(reservations.CommitReleaseTemporaryIp, to.reservations.commit_release_temporary_ip, role=Role.FULL),
        Route(changes.ChangeCluster, to.changes.change_cluster, role=Role.FULL),
        Route(changes.PrepareClusterDestruction, to.destruction.prepare_cluster_destruction, role=Role.FULL),
        Route(config.ReadResources, to.kept.read_resources, role=Role.READ),
        Route(config.SetResourceTotal, to.kept.set_resource, role=Role.FULL),
        Route(config.RemoveResourceTotal, to.kept.remove_resource, role=Role.FULL),
        # jobs of schedules have arguments, which are not for all
        Route(config.ReadSchedules, to.kept.read_schedules, role=Role.OPERATE),
        Route(config.PutSchedule, to.kept.put_schedule, role=Role.FULL),
        Route(config.RemoveSchedule, to.kept.remove_schedule, role=Role.FULL),
        Route(config.SettleRuns, to.kept.settle_runs, role=Role.FULL),
        Route(config.FollowSessions, to.sessions.follow_sessions, only_waits=True, role=Role.READ),
        Route(config.ChangeSessions, to.sessions.change_sessions, role=Role.READ),
        Route(daemon.ListLockViolations, to.config.list_lock_violations, role=Role.OPERATE),
        Route(daemon.ReadWconfdMetrics, to.state.read_metrics, role=Role.READ),
    ]


async def _echo(call: locks.Echo, _: Peer) -> str:
    return call.text
