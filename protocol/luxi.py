"""LUXI: the methods of luxid, as requests with their arguments in wire order.

Opcodes travel as JSON objects: what they mean is the registry's business
(`common.opcodes.registry`), and a client needs none of it.

Source: luxid.md section 2; `ReadJobOutput` is ours.
"""

import enum
from collections.abc import Mapping
from typing import Any

import attrs

from common.ids import JobId
from common.query.qlang import Expression
from protocol.messages import Request

# one opcode: {"OP_ID": "OP_...", parameters}
OpInput = Mapping[str, Any]
JobInput = tuple[OpInput, ...]


@attrs.frozen
class SubmitJob(Request[JobId]):
    """Take one job; answers its id once it is durable."""

    METHOD = "SubmitJob"
    job: JobInput
    # chosen by the client, another one for each submission: sent again, it gets the same id; ours
    key: str | None = None
    # in whose name, if the settings trust the caller to say so; ours
    user: str | None = None


@attrs.frozen
class SubmitJobToDrainedQueue(Request[JobId]):
    """The same without a look at the drain flag; for administrators."""

    METHOD = "SubmitJobToDrainedQueue"
    job: JobInput


@attrs.frozen
class SubmitManyJobs(Request[tuple[Any, ...]]):
    """Take several jobs at once; answers `[true, id]` or `[false, message]` for each, in order."""

    METHOD = "SubmitManyJobs"
    jobs: tuple[JobInput, ...]
    # as for `SubmitJob`; ours
    key: str | None = None
    user: str | None = None
    # the job whose process submits them: they are its owner's; ours
    by_job: JobId | None = None


@attrs.frozen
class WaitForJobChange(Request[Any]):
    """Wait until the fields or the log of a job differ from what the caller knows.

    Answers `[values, log entries]`; at the time-out the values as they are and no entries.
    """

    METHOD = "WaitForJobChange"
    job_id: JobId
    fields: tuple[str, ...]
    # values the caller has, or null: answer at once
    previous: Any
    # last log serial the caller has; null: all
    previous_serial: Any
    # seconds, capped at 89
    timeout: float


@attrs.frozen
class CancelJob(Request[tuple[Any, ...]]):
    """Cancel a job; answers `[done, message]`."""

    METHOD = "CancelJob"
    job_id: JobId
    kill: bool = False


@attrs.frozen
class ChangeJobPriority(Request[tuple[Any, ...]]):
    """Give a job's unfinished opcodes another priority; answers `[done, message]`."""

    METHOD = "ChangeJobPriority"
    job_id: JobId
    priority: int


@attrs.frozen
class PickupJob(Request[bool]):
    """Always refused: it was the queue's own, and some client may still know it."""

    METHOD = "PickupJob"
    job_id: JobId


@attrs.frozen
class ArchiveJob(Request[bool]):
    """Set a final job aside; false if there is none or it is not final."""

    METHOD = "ArchiveJob"
    job_id: JobId


@attrs.frozen
class AutoArchiveJobs(Request[tuple[int, int]]):
    """Set aside the jobs that ended more than `age` seconds ago; answers `[archived, not looked at]`."""

    METHOD = "AutoArchiveJobs"
    # seconds; negative: all final jobs
    age: int
    # seconds after which to stop looking
    timeout: int


@attrs.frozen
class SetDrainFlag(Request[bool]):
    """Close or open the queue to new jobs."""

    METHOD = "SetDrainFlag"
    drain: bool


@attrs.frozen
class QueryJobs(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values, one for each job; no ids: all jobs that are not archived, by id."""

    METHOD = "QueryJobs"
    job_ids: tuple[JobId, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class QueryConfigValues(Request[tuple[Any, ...]]):
    """The values of the named settings of the cluster; null for an unknown name."""

    METHOD = "QueryConfigValues"
    names: tuple[str, ...]


@attrs.frozen
class QueryClusterInfo(Request[Mapping[str, Any]]):
    """The cluster object and what this daemon is (luxid.md 2.8)."""

    METHOD = "QueryClusterInfo"


@attrs.frozen
class JobOutput:
    """A piece of what a job's commands printed."""

    # bytes, decoded as UTF-8 with replacements
    text: str
    # where to go on reading; more than the asked offset when output was rotated away
    next_offset: int
    # no more will come: the job is final and everything has been read
    is_end: bool


class OutputStream(enum.Enum):
    """Which of the streams that the commands of a job print to."""

    # standard output; and standard error, unless the command has it apart
    OUTPUT = "output"
    ERROR = "error"


@attrs.frozen
class ReadJobOutput(Request[JobOutput]):
    """Read a job's output from a byte offset on; waits up to `timeout` s if there is nothing new yet."""

    METHOD = "ReadJobOutput"
    job_id: JobId
    offset: int = 0
    timeout: float = 0.0
    # null: the output
    stream: OutputStream | None = None


class QueryKind(enum.Enum):
    """What can be asked for; the last two only by opcodes."""

    JOB = "job"
    LOCK = "lock"
    FILTER = "filter"
    NODE = "node"
    INSTANCE = "instance"
    GROUP = "group"
    NETWORK = "network"
    EXPORT = "export"
    CLUSTER = "cluster"
    OS = "os"


class TagKind(enum.Enum):
    """What can have tags."""

    CLUSTER = "cluster"
    NODEGROUP = "nodegroup"
    NODE = "node"
    INSTANCE = "instance"
    NETWORK = "network"


@attrs.frozen
class Query(Request[Mapping[str, Any]]):
    """Rows of `[status, value]` cells: `{"fields": [definition, ...], "data": [row, ...]}` (luxid.md 7)."""

    METHOD = "Query"
    what: QueryKind
    fields: tuple[str, ...]
    # what is not true for it is left out; one that only lists names is a look-up
    filter: Expression | None = None


@attrs.frozen
class QueryFields(Request[Mapping[str, Any]]):
    """The definitions of fields: `{"fields": [{"name", "title", "kind", "doc"}, ...]}`; none named: all."""

    METHOD = "QueryFields"
    what: QueryKind
    fields: tuple[str, ...] | None = None


@attrs.frozen
class QueryNodes(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values of the nodes with these names or UUIDs; none named: all."""

    METHOD = "QueryNodes"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    # must be false
    lock: bool = False


@attrs.frozen
class QueryGroups(Request[tuple[tuple[Any, ...], ...]]):
    """The same of node groups."""

    METHOD = "QueryGroups"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryNetworks(Request[tuple[tuple[Any, ...], ...]]):
    """The same of networks."""

    METHOD = "QueryNetworks"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryInstances(Request[tuple[tuple[Any, ...], ...]]):
    """The same of instances."""

    METHOD = "QueryInstances"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryFilters(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values of the filter rules with these UUIDs, by UUID; none named: all."""

    METHOD = "QueryFilters"
    uuids: tuple[str, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class QueryExports(Request[tuple[tuple[Any, ...], ...]]):
    """Rows `[node, export]`; null for a node without exports, or that could not be asked."""

    METHOD = "QueryExports"
    nodes: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryTags(Request[tuple[str, ...]]):
    """The tags of an object, sorted; the name of the cluster does not matter."""

    METHOD = "QueryTags"
    kind: TagKind
    name: str


@attrs.frozen
class SetWatcherPause(Request[float | None]):
    """Let the watcher do nothing until an instant; null: let it go on. Answers the same."""

    METHOD = "SetWatcherPause"
    # seconds since the epoch
    until: float | None


@attrs.frozen
class SetJobLimits(Request[bool]):
    """Change limits of the cluster; null leaves one as it is."""

    METHOD = "SetJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None = None


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule (uuid null), or make or replace that of the uuid; answers the uuid."""

    METHOD = "ReplaceFilter"
    uuid: str | None
    # 0 or more; smaller comes first
    priority: int
    # `["jobid" | "opcode" | "reason", expression]`; all must hold
    predicates: tuple[Any, ...]
    # ACCEPT, PAUSE, REJECT, CONTINUE or `["RATE_LIMIT", n]`
    action: Any
    reason_trail: tuple[Any, ...]


@attrs.frozen
class DeleteFilter(Request[Any]):
    """Delete a filter rule; answers null."""

    METHOD = "DeleteFilter"
    uuid: str


@attrs.frozen
class ExplainJobs(Request[tuple[Any, ...]]):
    """Why jobs do not run: for each id, in order, a list of `{"kind": ..., ...}`; null for one that is not live.

    Kinds: dependency, filter, limit, slots, order, aged weight, weight, moment, obstacle, unreadable; of a job whose
    process waits for locks: lock, turn, lock chain; of one that is being killed: ending; and unknown: what wconfd
    did not tell in time. Ours.
    """

    METHOD = "ExplainJobs"
    job_ids: tuple[JobId, ...]


@attrs.frozen
class ReadLeftProcesses(Request[tuple[Any, ...]]):
    """What jobs that have ended left running under their locks: for each id, in order, the pids. Ours."""

    METHOD = "ReadLeftProcesses"
    job_ids: tuple[JobId, ...]


@attrs.frozen
class ReadJobWaits(Request[tuple[Any, ...]]):
    """What jobs waited for so far, also archived ones: for each id, in order, a list of spans; null: no such job. Ours.

    A span is `{"kind", "since", "until", ...}` with instants in seconds since the epoch; `until` is null in the last
    one if the job still waits. Kinds: dependency, filter, limit, turn, obstacle, start, locks, unknown. What is to
    blame: `job_ids` (`more`: how many are left out), `names` (of locks, or of the rule or limit), `owners` of locks
    that are no jobs, `limit` and `is_bucket`, `reason` of a rule; each is left out if there is none.
    """

    METHOD = "ReadJobWaits"
    job_ids: tuple[JobId, ...]
