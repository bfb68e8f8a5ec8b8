"""Why jobs do not run, and what they waited for."""

import enum

import attrs

from common.ids import JobId
from common.queue.explanation import Reason, Span
from common.shapes import Lenient
from protocol.messages import Request

# Ask why jobs do not run. Ours.


@attrs.frozen
class ExplainJobs(Request[tuple[tuple[Reason, ...] | None, ...]]):
    """The reasons why jobs do not run, for each id, in order; null for a job that is not live."""

    METHOD = "ExplainJobs"
    job_ids: tuple[JobId, ...]


# What holds the most jobs back. Ours.


class BlockerKind(enum.Enum):
    """What holds jobs back, and what its name is."""

    # the job's id
    JOB = "job"
    # an owner of locks that is no job
    OWNER = "owner"
    # jobs that wait for each other's locks; the id of one of them
    RING = "ring"
    # a limit: the text of the bucket, the uuid of the filter rule, the id of the batch
    BUCKET = "bucket"
    RULE = "rule"
    BATCH = "batch"
    # too few units are free: the key of the resource
    RESOURCE = "resource"
    # a filter rule with PAUSE: its uuid
    PAUSE = "pause"
    # all slots for job processes are taken; no name
    SLOTS = "slots"


@attrs.frozen
class WayStep(Lenient):
    """What the one before it in a chain waits for."""

    kind: BlockerKind
    name: str
    # lock of it that is waited for; empty: its end, or a place
    lock: str = ""


@attrs.frozen
class LongWait(Lenient):
    """A job that waits, and the chain from it to what waits for nothing itself."""

    job_id: JobId
    # beginning of the wait, in seconds since the epoch; null: it is not known
    since: float | None
    # nearest first; empty: it waits for its turn
    way: tuple[WayStep, ...] = ()
    # number of steps that are left out, before the last ones
    left_out: int = 0


@attrs.frozen
class Blocker(Lenient):
    """Something that waits for nothing itself, or a ring, and for which jobs wait."""

    kind: BlockerKind
    name: str
    # of a limit, a resource or the slots the jobs that have its places; of a ring its jobs; the first ones by id
    job_ids: tuple[JobId, ...]
    # places, or units, that are taken, and that there are; of a ring the number of its jobs
    used: int
    limit: int | None
    # number of jobs that wait for it directly, and directly or through others
    direct: int
    behind: int
    # whether there may be more behind it
    is_at_least: bool
    # the longest of these waits; null: it is not known
    longest: LongWait | None


@attrs.frozen
class Blockers(Lenient):
    # rings come first, then those with the most jobs behind them
    blockers: tuple[Blocker, ...]
    # the jobs that have waited longest, those on hold or to begin later left out; longest first
    longest: tuple[LongWait, ...]
    # number of jobs that wait: without a process and not deferred, or for locks
    waiting: int
    # why waits for locks are left out; empty: they are not
    unknown: str = ""
    # whether the queue is so large that blockers may be missing
    is_partial: bool = False


@attrs.frozen
class ReadBlockers(Request[Blockers]):
    """What holds the most jobs back now, and which jobs wait longest."""

    METHOD = "ReadBlockers"
    # number of blockers, and of waits
    most: int = 10


# The graph of waits around some jobs. Ours.


@attrs.frozen
class WaitNode(Lenient):
    """A job, another owner of locks, or a place where jobs wait together."""

    # any but `RING`
    kind: BlockerKind
    name: str
    # of a limit, a resource or the slots: places, or units, that are taken, and that there are
    used: int = 0
    limit: int | None = None
    # number of waits of it that the graph does not have as edges
    more_ahead: int = 0
    # number of those that wait for it, and of ended jobs that it waited for, that are not in the graph
    more_behind: int = 0
    more_ended: int = 0


@attrs.frozen
class WaitEdge(Lenient):
    # places in the list of nodes, from 0
    waiter: int
    holder: int
    # lock that is waited for; empty: the other's end, or a place
    lock: str = ""
    # number of nodes that are left out between the two; 0: it waits for the other directly
    skipped: int = 0
    # whether the other is a job that has ended, for which it waits no longer
    is_over: bool = False


@attrs.frozen
class WaitGraph(Lenient):
    nodes: tuple[WaitNode, ...] = ()
    edges: tuple[WaitEdge, ...] = ()
    # number of jobs with which it was to begin, and which are not in it
    left_out: int = 0
    # whether there was no room for more nodes
    is_full: bool = False
    # whether the bound of the work was reached before the end of every chain was found
    is_partial: bool = False
    # why waits for locks are left out; empty: they are not
    unknown: str = ""


@attrs.frozen
class ReadWaitGraph(Request[WaitGraph]):
    """Who waits for whom around these jobs: first the way to what waits for nothing, then the rest, nearest first."""

    METHOD = "ReadWaitGraph"
    # those that are not live are left out; empty: all that wait, those for locks first
    job_ids: tuple[JobId, ...] = ()
    # number of nodes
    most: int = 500


# The waits of jobs. Ours.


@attrs.frozen
class ReadJobWaits(Request[tuple[tuple[Span, ...] | None, ...]]):
    """What jobs waited for so far, archived ones included: for each id, in order, its spans; null: no such job."""

    METHOD = "ReadJobWaits"
    job_ids: tuple[JobId, ...]


# Processes that jobs left running. Ours.


@attrs.frozen
class ReadLeftProcesses(Request[tuple[tuple[int, ...], ...]]):
    """The processes that ended jobs left running under their locks: for each id, in order, the pids."""

    METHOD = "ReadLeftProcesses"
    job_ids: tuple[JobId, ...]
