"""What luxid answers: method name, request class and handler, one row each.

Source: luxid.md 2.2; STYLE 2.4.
"""

import attrs

from common.access import Role
from daemons.luxid.configcache import ConfigCache, needing_config
from daemons.luxid.handlers.cluster import ClusterFacts
from daemons.luxid.handlers.drain import Queue
from daemons.luxid.handlers.explaining import Explaining
from daemons.luxid.handlers.filters import Filters
from daemons.luxid.handlers.jobchanges import Jobs
from daemons.luxid.handlers.limits import Limits
from daemons.luxid.handlers.objectqueries import ObjectQueries
from daemons.luxid.handlers.output import Output
from daemons.luxid.handlers.submission import Submission
from daemons.luxid.handlers.waithistory import JobWaits
from daemons.luxid.handlers.waiting import Waiting
from protocol import luxi
from protocol.service import Route


@attrs.frozen
class Handlers:
    """Who answers, by noun."""

    submission: Submission
    jobs: Jobs
    waiting: Waiting
    queue: Queue
    output: Output
    cluster: ClusterFacts
    objects: ObjectQueries
    filters: Filters
    limits: Limits
    explaining: Explaining
    history: JobWaits
    config: ConfigCache


def routes(to: Handlers) -> list[Route]:
    """The table; without a configuration none of it is answered but the wait for a status.

    The role is what a caller needs at least. Handlers ask for more where it depends on the arguments: a job of another
    user is changed, and seen whole, by *operate* only (`daemons.luxid.rights`), opcodes name their own.
    """
    return [needing_config(route, to.config) for route in _table(to)]


def _table(to: Handlers) -> list[Route]:
    return [
        Route(luxi.SubmitJob, to.submission.submit_job, role=Role.SUBMIT),
        Route(luxi.SubmitJobToDrainedQueue, to.submission.submit_job_to_drained_queue, role=Role.ADMIN),
        Route(luxi.SubmitManyJobs, to.submission.submit_many_jobs, role=Role.SUBMIT),
        Route(luxi.WaitForJobChange, to.waiting.wait_for_job_change, only_waits=True, role=Role.READ),
        Route(luxi.CancelJob, to.jobs.cancel_job, role=Role.SUBMIT),
        Route(luxi.ChangeJobPriority, to.jobs.change_job_priority, role=Role.SUBMIT),
        Route(luxi.PickupJob, to.jobs.pickup_job, role=Role.OPERATE),
        Route(luxi.ArchiveJob, to.jobs.archive_job, role=Role.SUBMIT),
        Route(luxi.AutoArchiveJobs, to.jobs.auto_archive_jobs, role=Role.OPERATE),
        Route(luxi.SetDrainFlag, to.queue.set_drain_flag, role=Role.OPERATE),
        Route(luxi.SetWatcherPause, to.queue.set_watcher_pause, role=Role.OPERATE),
        Route(luxi.QueryJobs, to.objects.query_jobs, role=Role.READ),
        Route(luxi.QueryConfigValues, to.cluster.query_config_values, role=Role.READ),
        Route(luxi.QueryClusterInfo, to.cluster.query_cluster_info, role=Role.READ),
        Route(luxi.ReadJobOutput, to.output.read_job_output, only_waits=True, role=Role.READ),
        Route(luxi.Query, to.objects.query, role=Role.READ),
        Route(luxi.QueryFields, to.objects.query_fields, role=Role.READ),
        Route(luxi.QueryNodes, to.objects.query_nodes, role=Role.READ),
        Route(luxi.QueryGroups, to.objects.query_groups, role=Role.READ),
        Route(luxi.QueryNetworks, to.objects.query_networks, role=Role.READ),
        Route(luxi.QueryInstances, to.objects.query_instances, role=Role.READ),
        Route(luxi.QueryFilters, to.objects.query_filters, role=Role.READ),
        Route(luxi.SetJobLimits, to.limits.set_job_limits, role=Role.ADMIN),
        Route(luxi.ReplaceFilter, to.filters.replace_filter, role=Role.OPERATE),
        Route(luxi.DeleteFilter, to.filters.delete_filter, role=Role.OPERATE),
        Route(luxi.ExplainJobs, to.explaining.explain_jobs, role=Role.READ),
        Route(luxi.ReadLeftProcesses, to.explaining.read_left_processes, role=Role.READ),
        Route(luxi.ReadJobWaits, to.history.read_job_waits, role=Role.READ),
        Route(luxi.QueryExports, to.objects.query_exports, role=Role.READ),
        Route(luxi.QueryTags, to.objects.query_tags, role=Role.READ),
    ]
