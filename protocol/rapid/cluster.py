"""What /3 tells of the cluster: the caller, filter rules, locks, objects, the queue, resources, schedules."""

from collections.abc import Mapping

import attrs

from common.ids import JobId
from common.objects.filter import Action, FilterRule
from common.resources import Unit
from common.schedules.schedule import Missed, Overlap
from protocol.luxi.jobs import OpInput
from protocol.luxi.queries import QueryResult
from protocol.luxi.queue import ResourceUse, ScheduleView

# Who calls, as the server sees it: `GET /3/me`.
#
# Source: DESIGN section 15.


@attrs.frozen
class Caller:
    # name of the user or token; "": nobody said one
    name: str
    # login of the user who owns the jobs, and as whom commands run; null: none, so no command can be run
    unix_user: str | None
    # role, in a word; null: none
    role: str | None
    # single rights beside the role
    rights: tuple[str, ...]
    # value of the field `user` of jobs that the caller submits; "": nobody's
    owner: str


# Filter rules under /3.
#
# Source: filters design; luxid.md 6.


@attrs.frozen
class FilterLoad:
    """What a rule does to the jobs."""

    # number of jobs since luxid's start: refused when they came, or canceled in the queue
    rejected: int
    # queued jobs that wait for no other job, and that the rule keeps from starting
    held: int
    # jobs that count against the limit of a RATE_LIMIT now; 0 for other actions
    running: int


@attrs.frozen(kw_only=True)
class Filter(FilterRule):
    """A rule of the chain, with what it does to the jobs."""

    # null: it is not in force
    load: FilterLoad | None = None
    # by which a change says what it takes the rule for; "": the rule was changed by others right after
    tag: str = ""


@attrs.frozen
class FilterList:
    # in the order of the chain
    filters: tuple[Filter, ...]


@attrs.frozen
class FilterWish:
    """A rule to set, or to try."""

    # ACCEPT, PAUSE, REJECT, CONTINUE, or `["RATE_LIMIT", n]`
    action: Action
    # smaller comes first
    priority: int = 0
    # as in `Filter`; none, and no `where`: the rule is for all jobs
    predicates: tuple[object, ...] = ()
    # further conditions as text: "op=OP_RUN_COMMAND & reason=~upgrade"
    where: str | None = None
    # shown to users who ask why a job waits
    reason: str = ""


@attrs.frozen(kw_only=True)
class FilterPatch:
    """What to change of a rule; what is left out stays as it is, null gives the default."""

    action: Action | None = None
    priority: int | None = None
    # with `where`, all conditions of the rule from now on
    predicates: tuple[object, ...] | None = None
    # conditions as text; with `predicates`, all of the rule from now on
    where: str | None = None
    # null: none any more
    reason: str | None = None


@attrs.frozen
class FilterTrial:
    """The jobs that wait now and to which a rule would apply; nothing was changed."""

    count: int
    ids: tuple[JobId, ...]


# The lock table under /3.
#
# Source: luxid.md 7.4.


@attrs.frozen
class LockWaiters:
    """Owners that wait for a lock in one mode, or for the end of a job with these states."""

    wanted: str
    # jobs as "job/14", others by their name; in their order
    owners: tuple[str, ...]


@attrs.frozen
class LockState:
    """A lock, or a job whose end others wait for."""

    # "node/web1", "job/14"
    name: str
    # strongest mode in which it is held: "shared" or "exclusive"; null: it is free
    mode: str | None
    # jobs as "job/14", others by their name
    holders: tuple[str, ...]
    waiters: tuple[LockWaiters, ...]


@attrs.frozen
class LockOrphan:
    """A holder whose process is gone, and whose command may still run on a node: its locks are kept."""

    # "job/14"
    holder: str
    # names of the nodes, sorted
    nodes: tuple[str, ...]
    # seconds since 1970
    since: float
    # when its locks become free without a word of a node or an operator; null: never
    ends_at: float | None


@attrs.frozen
class LockList:
    # locks in lock order, then jobs by id
    locks: tuple[LockState, ...]
    # those among the holders
    # of the owners that are orphans; the key has the name that it had before
    ghosts: tuple[LockOrphan, ...] = ()


# Nodes, groups, networks and instances under /3, read only; and the bare query of LUXI for all but jobs.
#
# Source: luxid.md 7.


@attrs.frozen
class ObjectList:
    """Objects with the values of the fields that were asked for; null where there is none."""

    objects: tuple[Mapping[str, object], ...]
    # sentences for people, such as how many objects a filter could not judge
    notes: tuple[str, ...] = ()


@attrs.frozen
class ObjectQuery:
    """A query of LUXI."""

    fields: tuple[str, ...]
    # expression of the query language; null: all
    filter: object = None


@attrs.frozen
class ObjectRows(QueryResult):
    """The result of LUXI: definitions of the fields, and rows of [state, value]."""

    # as in a list
    notes: tuple[str, ...] = ()


# The queue as a whole, and the cluster.
#
# Source: luxid.md 2.2, 2.7.


@attrs.frozen
class Queue:
    # whether new jobs are refused
    drained: bool
    # seconds since 1970; null: the watcher is not paused
    watcher_paused_until: float | None
    # number of jobs that may run at once, and that luxid looks at closely
    max_running_jobs: int | None
    max_tracked_jobs: int | None
    # number of queued jobs that are on hold, or begin later, or wait for their next try
    deferred: int


@attrs.frozen
class LimitsWish:
    """Limits of the cluster; null leaves one unchanged."""

    max_running_jobs: int | None = None
    max_tracked_jobs: int | None = None


# Counted resources under /3.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class ResourceList:
    # those of the cluster first, by name
    resources: tuple[ResourceUse, ...]


@attrs.frozen
class TotalWish:
    """The total of a resource."""

    # at least 0; it may be less than what is in use: nothing is ended, and nothing new is taken
    total: int
    unit: Unit = Unit.COUNT


@attrs.frozen(kw_only=True)
class TotalPatch:
    """What to change of a resource; what is left out stays as it is, null gives the default."""

    # as in `TotalWish`
    total: int | None = None
    unit: Unit | None = None


# Schedules under /3.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class ScheduleList:
    # by name
    schedules: tuple[ScheduleView, ...]


@attrs.frozen(kw_only=True)
class ScheduleForm:
    """A schedule to set; what is left out has its default."""

    # opcodes of the job
    job: tuple[OpInput, ...]
    # five words of cron, or `every_s`
    cron: str | None = None
    # IANA name of a time zone
    zone: str | None = None
    every_s: float | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    deadline_s: float | None = None
    spread_s: float | None = None


@attrs.frozen(kw_only=True)
class SchedulePatch:
    """What to change of a schedule; what is left out stays as it is, null gives the default."""

    # as in `ScheduleForm`; cron words take the place of an interval, and an interval that of cron words
    cron: str | None = None
    zone: str | None = None
    every_s: float | None = None
    # the job as a whole
    job: tuple[OpInput, ...] | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    deadline_s: float | None = None
    spread_s: float | None = None


@attrs.frozen
class StartedRun:
    """The job of a run by hand."""

    id: JobId
