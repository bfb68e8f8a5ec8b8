"""luxid's methods: method name, request class and handler, one row each.

Source: luxid.md 2.2.
"""

import attrs

from common.access import Role
from daemons.luxid.config import ConfigCache, needing_config
from daemons.luxid.handlers.cluster import (
    ClusterFacts,
    CopyChecks,
    LimitHandlers,
    MastershipMove,
    Resources,
    WholeQueueHandlers,
)
from daemons.luxid.handlers.explaining import Blocking, Explaining, JobWaitHandlers
from daemons.luxid.handlers.filters import FilterHandlers
from daemons.luxid.handlers.health import LuxidHealthHandlers, LuxidMetricHandlers
from daemons.luxid.handlers.jobchanges import JobHandlers, ManyJobsHandlers
from daemons.luxid.handlers.past import PastJobs, PruneHandlers
from daemons.luxid.handlers.queries import ObjectQueries
from daemons.luxid.handlers.repairs import Repairs
from daemons.luxid.handlers.schedules import Schedules
from daemons.luxid.handlers.submission import SubmissionHandlers
from daemons.luxid.handlers.waiting import OutputHandlers, Subscribing, Waiting
from protocol.luxi.daemon import CheckQueueCopies, PrepareMove, ReadHealth, ReadMetrics, Repair
from protocol.luxi.feed import Subscribe
from protocol.luxi.history import Prune, ReadHistory, SummarizeHistory
from protocol.luxi.jobs import (
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    CancelJobs,
    ChangeJobPriority,
    ChangeJobs,
    PickupJob,
    ReadJobOutput,
    ReadOutputTimes,
    SubmitJob,
    SubmitJobToDrainedQueue,
    SubmitManyJobs,
    SubmitOnce,
)
from protocol.luxi.queries import (
    Query,
    QueryClusterInfo,
    QueryConfigValues,
    QueryExports,
    QueryFields,
    QueryFilters,
    QueryGroups,
    QueryInstances,
    QueryJobs,
    QueryNetworks,
    QueryNodes,
    QueryTags,
    WaitForJobChange,
)
from protocol.luxi.queue import (
    AddSchedule,
    ChangeSchedule,
    DeleteFilter,
    ListSchedules,
    PauseSchedule,
    ReadResourceUse,
    ReadRuleLoads,
    RemoveResource,
    RemoveScheduleOf,
    ReplaceFilter,
    RunSchedule,
    SetDrainFlag,
    SetJobLimits,
    SetResource,
    SetSchedule,
    SetWatcherPause,
    TryFilterRule,
)
from protocol.luxi.why import ExplainJobs, ReadBlockers, ReadJobWaits, ReadLeftProcesses, ReadWaitGraph
from protocol.serving.route import AnyRoute, Route


@attrs.frozen
class LuxidHandlers:
    """The handlers, by noun."""

    submission: SubmissionHandlers
    jobs: JobHandlers
    many_jobs: ManyJobsHandlers
    waiting: Waiting
    queue: WholeQueueHandlers
    output: OutputHandlers
    cluster: ClusterFacts
    copies: CopyChecks
    repairs: Repairs
    objects: ObjectQueries
    filters: FilterHandlers
    limits: LimitHandlers
    subscribing: Subscribing
    explaining: Explaining
    blocking: Blocking
    history: JobWaitHandlers
    metrics: LuxidMetricHandlers
    health: LuxidHealthHandlers
    moving: MastershipMove
    past: PastJobs
    prunes: PruneHandlers
    schedules: Schedules
    resources: Resources
    config: ConfigCache


def routes(to: LuxidHandlers) -> list[AnyRoute]:
    """Return the table; as long as there is no configuration, every call but the wait for a status fails.

    The role is the minimum for a caller. Handlers require more where it depends on the arguments: only *operate* may
    change another user's job, or see it whole (`daemons.luxid.core.rights`); opcodes name their own role.
    """
    return [needing_config(route, to.config) for route in _table(to)]


def _table(to: LuxidHandlers) -> list[AnyRoute]:
    return [
        Route(SubmitJob, to.submission.submit_job, role=Role.SUBMIT),
        Route(SubmitJobToDrainedQueue, to.submission.submit_job_to_drained_queue, role=Role.ADMIN),
        Route(SubmitManyJobs, to.submission.submit_many_jobs, role=Role.SUBMIT),
        Route(SubmitOnce, to.submission.submit_once, role=Role.SUBMIT),
        Route(WaitForJobChange, to.waiting.wait_for_job_change, only_waits=True, role=Role.READ),
        Route(ListSchedules, to.schedules.list_schedules, role=Role.READ),
        Route(AddSchedule, to.schedules.add_schedule, role=Role.SUBMIT),
        Route(SetSchedule, to.schedules.set_schedule, role=Role.SUBMIT),
        Route(ChangeSchedule, to.schedules.change_schedule, role=Role.SUBMIT),
        Route(PauseSchedule, to.schedules.pause_schedule, role=Role.SUBMIT),
        Route(RunSchedule, to.schedules.run_schedule, role=Role.SUBMIT),
        Route(RemoveScheduleOf, to.schedules.remove_schedule, role=Role.SUBMIT),
        Route(CancelJob, to.jobs.cancel_job, role=Role.SUBMIT),
        Route(ChangeJobPriority, to.jobs.change_job_priority, role=Role.SUBMIT),
        Route(CancelJobs, to.many_jobs.cancel_jobs, role=Role.SUBMIT),
        Route(ChangeJobs, to.many_jobs.change_jobs, role=Role.SUBMIT),
        Route(PickupJob, to.jobs.pickup_job, role=Role.OPERATE),
        Route(ArchiveJob, to.jobs.archive_job, role=Role.SUBMIT),
        Route(AutoArchiveJobs, to.jobs.auto_archive_jobs, role=Role.OPERATE),
        Route(SetDrainFlag, to.queue.set_drain_flag, role=Role.OPERATE),
        Route(SetWatcherPause, to.queue.set_watcher_pause, role=Role.OPERATE),
        Route(QueryJobs, to.objects.query_jobs, role=Role.READ),
        Route(QueryConfigValues, to.cluster.query_config_values, role=Role.READ),
        Route(CheckQueueCopies, to.copies.check_queue_copies, only_waits=True, role=Role.OPERATE),
        # to tell only; to fetch is for administrators
        Route(Repair, to.repairs.repair, role=Role.OPERATE),
        Route(QueryClusterInfo, to.cluster.query_cluster_info, role=Role.READ),
        Route(ReadJobOutput, to.output.read_job_output, only_waits=True, role=Role.READ),
        Route(ReadOutputTimes, to.output.read_output_times, role=Role.READ),
        Route(Query, to.objects.query, only_waits=True, role=Role.READ),
        Route(QueryFields, to.objects.query_fields, role=Role.READ),
        Route(QueryNodes, to.objects.query_nodes, only_waits=True, role=Role.READ),
        Route(QueryGroups, to.objects.query_groups, role=Role.READ),
        Route(QueryNetworks, to.objects.query_networks, role=Role.READ),
        Route(QueryInstances, to.objects.query_instances, only_waits=True, role=Role.READ),
        Route(QueryFilters, to.objects.query_filters, role=Role.READ),
        Route(SetJobLimits, to.limits.set_job_limits, role=Role.ADMIN),
        Route(ReplaceFilter, to.filters.replace_filter, role=Role.OPERATE),
        Route(DeleteFilter, to.filters.delete_filter, role=Role.OPERATE),
        # it reads whole opcodes
        Route(TryFilterRule, to.filters.try_filter_rule, role=Role.OPERATE),
        Route(ReadRuleLoads, to.filters.read_rule_loads, role=Role.READ),
        Route(Subscribe, to.subscribing.subscribe, only_waits=True, role=Role.READ),
        Route(ExplainJobs, to.explaining.explain_jobs, role=Role.READ),
        Route(ReadBlockers, to.blocking.read_blockers, only_waits=True, role=Role.READ),
        Route(ReadWaitGraph, to.blocking.read_wait_graph, only_waits=True, role=Role.READ),
        Route(ReadLeftProcesses, to.explaining.read_left_processes, role=Role.READ),
        Route(ReadJobWaits, to.history.read_job_waits, role=Role.READ),
        Route(ReadHistory, to.past.read_history, only_waits=True, role=Role.READ),
        Route(SummarizeHistory, to.past.summarize_history, only_waits=True, role=Role.READ),
        # to tell only; to remove is for administrators
        Route(Prune, to.prunes.prune, role=Role.OPERATE),
        Route(ReadMetrics, to.metrics.read_metrics, role=Role.READ),
        Route(ReadHealth, to.health.read_health, only_waits=True, role=Role.READ),
        Route(QueryExports, to.objects.query_exports, only_waits=True, role=Role.READ),
        Route(PrepareMove, to.moving.prepare_move, only_waits=True, role=Role.ADMIN),
        Route(ReadResourceUse, to.resources.read_resource_use, role=Role.READ),
        Route(SetResource, to.resources.set_resource, role=Role.OPERATE),
        Route(RemoveResource, to.resources.remove_resource, role=Role.OPERATE),
        Route(QueryTags, to.objects.query_tags, role=Role.READ),
    ]
