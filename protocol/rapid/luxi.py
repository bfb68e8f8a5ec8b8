"""LUXI over HTTP: which of its methods pass, for whom, and the form of a call, a reply and a stream.

Theory. `POST /luxi/METHOD` with the method's arguments by position, a list in JSON, is the message of the Unix socket:
rapid adds who speaks, and the reply is luxid's own, as it came, result or error, with the status 200. Any other status
is a refusal of rapid, as problem details, and luxid has not acted; but for 502, where that is not known. A stream is
the reply and the notifications that follow, framed as on the socket, with a space between two of them now and then.

Only the bearer of a token may call. The rights of the token decide whether a method passes, and with which role luxid
carries it out; luxid's own checks of roles and owners are those of every caller. Each method of luxid stands here, in
one of two tables.

Source: DESIGN section 15; luxid.md section 2.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from common.objects.kinds import QueryKind
from common.webaccess.rights import Right
from protocol.luxi import daemon, history, jobs, queries, queue, why
from protocol.luxi.feed import FeedTopic, Subscribe
from protocol.messages import AnyRequest

STREAM_TYPE: Final = "application/vnd.gantry.luxi"
# between two messages of a stream: JSON lets it stand before a text
PING: Final = b" "


@attrs.frozen
class Passed:
    """A method that is called from afar."""

    kind: type[AnyRequest]
    # any one of them is enough
    rights: tuple[Right, ...]
    changes: bool = False
    # whether it may take long, and nothing is lost when its caller goes
    only_waits: bool = False


def path_of(kind: type[AnyRequest]) -> str:
    """Where the method is called."""
    return f"/luxi/{kind.METHOD}"


_JOBS: Final = (Right.JOBS_READ,)
_CLUSTER: Final = (Right.CLUSTER_READ,)
_OWN: Final = (Right.JOBS_SUBMIT,)
_QUEUE: Final = (Right.QUEUE_WRITE,)
_RULES: Final = (Right.FILTERS_WRITE,)
_EVERY_READ: Final = (Right.JOBS_READ, Right.LOCKS_READ, Right.FILTERS_READ, Right.CLUSTER_READ)


def _reads(rights: tuple[Right, ...], *kinds: type[AnyRequest], only_waits: bool = False) -> list[Passed]:
    return [Passed(kind, rights, only_waits=only_waits) for kind in kinds]


def _changes(rights: tuple[Right, ...], *kinds: type[AnyRequest]) -> list[Passed]:
    return [Passed(kind, rights, changes=True) for kind in kinds]


# those that pass
PASSED: Final[Mapping[type[AnyRequest], Passed]] = {
    row.kind: row
    for row in (
        *_reads(_JOBS, queries.QueryJobs, why.ExplainJobs, why.ReadJobWaits, why.ReadLeftProcesses),
        *_reads(_JOBS, why.ReadBlockers, only_waits=True),
        *_reads(_JOBS, why.ReadWaitGraph, only_waits=True),
        *_reads(_JOBS, queries.WaitForJobChange, jobs.ReadJobOutput, only_waits=True),
        *_reads(_JOBS, jobs.ReadOutputTimes),
        *_reads(_JOBS, history.ReadHistory, history.SummarizeHistory, only_waits=True),
        *_reads(_JOBS, queue.ListSchedules, queue.ReadResourceUse),
        # the arguments say which of the rights; see `needs`
        *_reads(_EVERY_READ, queries.Query, queries.QueryFields),
        *_reads(_JOBS, Subscribe, only_waits=True),
        *_reads((Right.FILTERS_READ,), queries.QueryFilters, queue.ReadRuleLoads),
        *_reads(_RULES, queue.TryFilterRule),
        *_reads(_CLUSTER, queries.QueryConfigValues, queries.QueryClusterInfo, queries.QueryTags),
        *_reads(_CLUSTER, queries.QueryNodes, queries.QueryGroups, queries.QueryNetworks),
        *_reads(_CLUSTER, queries.QueryInstances, queries.QueryExports),
        *_reads((Right.METRICS_READ,), daemon.ReadMetrics),
        *_changes(_OWN, jobs.SubmitJob, jobs.SubmitManyJobs, jobs.SubmitOnce),
        *_changes((*_OWN, Right.JOBS_CANCEL), jobs.CancelJob, jobs.CancelJobs),
        *_changes((*_OWN, Right.JOBS_PRIORITY), jobs.ChangeJobPriority, jobs.ChangeJobs),
        *_changes((*_OWN, Right.JOBS_ARCHIVE), jobs.ArchiveJob),
        *_changes((Right.JOBS_ARCHIVE,), jobs.AutoArchiveJobs),
        *_changes(_OWN, queue.AddSchedule, queue.ChangeSchedule, queue.PauseSchedule),
        *_changes(_OWN, queue.SetSchedule, queue.RunSchedule, queue.RemoveScheduleOf),
        *_changes(_RULES, queue.ReplaceFilter, queue.DeleteFilter),
        *_changes(_QUEUE, queue.SetDrainFlag, queue.SetWatcherPause, queue.SetJobLimits),
        *_changes(_QUEUE, queue.SetResource, queue.RemoveResource, history.Prune),
    )
}
# those that are called only on a machine of the cluster, and why
LOCAL: Final[Mapping[type[AnyRequest], str]] = {
    daemon.PrepareMove: "it moves the mastership, and holds only as long as the connection of keeperd there",
    daemon.Repair: "it is about files of the machines of the cluster",
    daemon.CheckQueueCopies: "it reads each file of the queue on each candidate",
    daemon.ReadHealth: "it tells of folders and disks of the master",
    jobs.SubmitJobToDrainedQueue: "past a drained queue come only jobs of the master itself",
    jobs.PickupJob: "it was internal to Ganeti's queue",
}

_QUERIED: Final = {
    QueryKind.JOB: Right.JOBS_READ,
    QueryKind.LOCK: Right.LOCKS_READ,
    QueryKind.FILTER: Right.FILTERS_READ,
}


def needs(request: AnyRequest) -> Iterable[Right]:
    """The rights that the arguments need, all of them, beside one of those of the method."""
    match request:
        case queries.Query():
            return (_QUERIED.get(request.what, Right.CLUSTER_READ),)
        case Subscribe() if FeedTopic.FILTERS in request.topics:
            return (Right.FILTERS_READ,)
        case _:
            return ()
