"""The queue as a whole: drain flag, limits, and the pause of the watcher.

Source: luxid.md section 2.
"""

from typing import Self

import attrs

from common.conditions import Condition
from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.ruleloads import RuleLoads
from common.resources import Resource
from common.schedules.schedule import Missed, Overlap, Schedule
from common.shapes import Lenient
from protocol.luxi.jobs import JobInput
from protocol.messages import Request


@attrs.frozen
class SetDrainFlag(Request[bool]):
    """Close or open the queue to new jobs."""

    METHOD = "SetDrainFlag"
    drain: bool


@attrs.frozen
class SetWatcherPause(Request[float | None]):
    """Pause the watcher until an instant; null: let it go on. Returns the instant."""

    METHOD = "SetWatcherPause"
    # seconds since the epoch
    until: float | None


@attrs.frozen
class SetJobLimits(Request[bool]):
    """Change limits of the cluster; null leaves one unchanged."""

    METHOD = "SetJobLimits"
    max_running_jobs: int | None
    max_tracked_jobs: int | None = None


# Set filter rules.
#
# Source: luxid.md section 2.


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule (uuid null), or create or replace the one with the uuid; returns the uuid."""

    METHOD = "ReplaceFilter"
    uuid: str | None
    # >= 0; smaller comes first
    priority: int
    # `["jobid" | "opcode" | "reason", expression]`; all must hold
    predicates: tuple[object, ...]
    # ACCEPT, PAUSE, REJECT, CONTINUE or `["RATE_LIMIT", n]`
    action: object
    reason_trail: tuple[object, ...]
    # what must hold of the rule before, else it stays as it is; null: nothing; ours
    condition: Condition | None = None

    @classmethod
    def of(cls, rule: FilterRule, condition: Condition | None = None) -> Self:
        return cls(rule.uuid or None, rule.priority, rule.predicates, rule.action, rule.reason_trail, condition)


@attrs.frozen
class DeleteFilter(Request[None]):
    """Delete a filter rule; returns null."""

    METHOD = "DeleteFilter"
    uuid: str
    # as for `ReplaceFilter`; ours
    condition: Condition | None = None


@attrs.frozen
class TryFilterRule(Request[tuple[JobId, ...]]):
    """The queued jobs to which a rule would apply, by id; nothing is changed. Ours.

    The rule is evaluated as `ReplaceFilter` would set it now, among the existing rules. It applies to a job if it
    matches the job and no earlier rule applies.
    """

    METHOD = "TryFilterRule"
    # as for `ReplaceFilter`; null: a new rule
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object

    @classmethod
    def of(cls, rule: FilterRule) -> Self:
        return cls(rule.uuid or None, rule.priority, rule.predicates, rule.action)


@attrs.frozen
class ReadRuleLoads(Request[RuleLoads]):
    """What the rules in force and the buckets do to the jobs now, in numbers. Ours."""

    METHOD = "ReadRuleLoads"


# Counted resources: their totals, and what is in use of them; ours.
#
# wconfd keeps the totals, luxid counts the use.
#
# Source: DESIGN section 16.


@attrs.frozen
class ResourceUse(Lenient):
    """A resource, and who uses and wants it."""

    resource: Resource
    # units of jobs that have a process, or whose locks still stand; may be more than the total after it was lowered
    used: int
    # job -> its units
    users: tuple[tuple[JobId, int], ...]
    # number of jobs that are ready but for it
    waiting: int
    # by which a change says what it takes the resource for
    tag: str = ""


@attrs.frozen
class ReadResourceUse(Request[tuple[ResourceUse, ...]]):
    """All resources."""

    METHOD = "ReadResourceUse"


@attrs.frozen
class SetResource(Request[None]):
    """Set a total, durably; a resource of a new name comes to be by it. It is in force on return."""

    METHOD = "SetResource"
    resource: Resource
    # what must hold of it before, else it stays as it is; null: nothing
    condition: Condition | None = None


@attrs.frozen
class RemoveResource(Request[None]):
    """Remove a resource, durably; jobs that want it wait until it is set again."""

    METHOD = "RemoveResource"
    # name of the node; "": the resource is the cluster's
    node: str
    name: str
    # as for `SetResource`
    condition: Condition | None = None


# Schedules as users add, see and change them; ours.
#
# luxid checks a schedule and its job, and has wconfd keep it.
#
# Source: DESIGN section 16.


@attrs.frozen(kw_only=True)
class ScheduleRequest(Lenient):
    """A schedule as a user wants it; null: the default, or, of a schedule that is there, as it is."""

    name: str
    cron: str | None = None
    zone: str | None = None
    every_s: float | None = None
    job: JobInput | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    deadline_s: float | None = None
    spread_s: float | None = None


@attrs.frozen
class ScheduleView(Lenient):
    """A schedule with what follows from it."""

    schedule: Schedule
    # next nominal instants, in seconds since the epoch; empty: it is paused, or cannot run
    next_at: tuple[float, ...]
    # the job of the last run, if it has not ended
    active_job: JobId | None = None
    # why it cannot run, such as an unknown time zone; "": it can
    stopped: str = ""
    # by which a change says what it takes the schedule for; "": the caller does not see all of it
    tag: str = ""


@attrs.frozen
class ListSchedules(Request[tuple[ScheduleView, ...]]):
    """All schedules, by name, each with this number of next runs; without the opcodes of their jobs."""

    METHOD = "ListSchedules"
    next_count: int = 3
    # only these, if they are there, with the opcodes of their jobs; null: all, without
    names: tuple[str, ...] | None = None


@attrs.frozen
class AddSchedule(Request[ScheduleView]):
    """Add a schedule, durably; refused if its name is taken, its words name no instant, or its job is malformed."""

    METHOD = "AddSchedule"
    wish: ScheduleRequest


@attrs.frozen
class ChangeSchedule(Request[ScheduleView]):
    """Change a schedule; runs that its old words have missed are not made up for."""

    METHOD = "ChangeSchedule"
    wish: ScheduleRequest
    # what must hold of the schedule before, else it stays as it is; null: nothing
    condition: Condition | None = None
    # parts that get their default, by their names in `ScheduleRequest`
    cleared: tuple[str, ...] | None = None


@attrs.frozen
class SetSchedule(Request[ScheduleView]):
    """Add a schedule, or replace the one of this name; what the wish leaves out has its default.

    Of one that is there, its user, whether it is paused, and what it knows of its runs stay.
    """

    METHOD = "SetSchedule"
    wish: ScheduleRequest
    # as for `ChangeSchedule`
    condition: Condition | None = None


@attrs.frozen
class PauseSchedule(Request[ScheduleView]):
    """Pause a schedule, or let it go on; runs that it missed meanwhile are not made up for."""

    METHOD = "PauseSchedule"
    name: str
    is_paused: bool


@attrs.frozen
class RunSchedule(Request[JobId]):
    """Submit a schedule's job now; its times stay as they are."""

    METHOD = "RunSchedule"
    name: str
    # chosen by the client, unique for each run: sent again, it is the same run
    key: str = ""


@attrs.frozen
class RemoveScheduleOf(Request[bool]):
    """Remove a schedule; its jobs stay. False: there is none."""

    METHOD = "RemoveSchedule"
    name: str
    # as for `ChangeSchedule`, if there is one
    condition: Condition | None = None
