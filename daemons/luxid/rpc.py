"""What luxid answers: method name, request class and handler, one row each.

Source: luxid.md 2.2; STYLE 2.4.
"""

import attrs

from daemons.luxid.handlers.cluster import ClusterFacts
from daemons.luxid.handlers.configcache import ConfigCache, needing_config
from daemons.luxid.handlers.explaining import Explaining
from daemons.luxid.handlers.filters import Filters
from daemons.luxid.handlers.history import JobWaits
from daemons.luxid.handlers.jobs import Jobs
from daemons.luxid.handlers.objectqueries import ObjectQueries
from daemons.luxid.handlers.output import Output
from daemons.luxid.handlers.queue import Queue
from daemons.luxid.handlers.submission import Submission
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
    explaining: Explaining
    history: JobWaits
    config: ConfigCache


def routes(to: Handlers) -> list[Route]:
    """The table; without a configuration none of it is answered but the wait for a status."""
    return [needing_config(route, to.config) for route in _table(to)]


def _table(to: Handlers) -> list[Route]:
    return [
        Route(luxi.SubmitJob, to.submission.submit_job),
        Route(luxi.SubmitJobToDrainedQueue, to.submission.submit_job_to_drained_queue),
        Route(luxi.SubmitManyJobs, to.submission.submit_many_jobs),
        Route(luxi.WaitForJobChange, to.waiting.wait_for_job_change, only_waits=True),
        Route(luxi.CancelJob, to.jobs.cancel_job),
        Route(luxi.ChangeJobPriority, to.jobs.change_job_priority),
        Route(luxi.PickupJob, to.jobs.pickup_job),
        Route(luxi.ArchiveJob, to.jobs.archive_job),
        Route(luxi.AutoArchiveJobs, to.jobs.auto_archive_jobs),
        Route(luxi.SetDrainFlag, to.queue.set_drain_flag),
        Route(luxi.SetWatcherPause, to.queue.set_watcher_pause),
        Route(luxi.QueryJobs, to.objects.query_jobs),
        Route(luxi.QueryConfigValues, to.cluster.query_config_values),
        Route(luxi.QueryClusterInfo, to.cluster.query_cluster_info),
        Route(luxi.ReadJobOutput, to.output.read_job_output, only_waits=True),
        Route(luxi.Query, to.objects.query),
        Route(luxi.QueryFields, to.objects.query_fields),
        Route(luxi.QueryNodes, to.objects.query_nodes),
        Route(luxi.QueryGroups, to.objects.query_groups),
        Route(luxi.QueryNetworks, to.objects.query_networks),
        Route(luxi.QueryInstances, to.objects.query_instances),
        Route(luxi.QueryFilters, to.objects.query_filters),
        Route(luxi.ReplaceFilter, to.filters.replace_filter),
        Route(luxi.DeleteFilter, to.filters.delete_filter),
        Route(luxi.ExplainJobs, to.explaining.explain_jobs),
        Route(luxi.ReadJobWaits, to.history.read_job_waits),
        Route(luxi.QueryExports, to.objects.query_exports),
        Route(luxi.QueryTags, to.objects.query_tags),
    ]
