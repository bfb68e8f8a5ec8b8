"""What the pages of locks, filter rules, schedules and resources show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

import attrs

from common.objects.filter import ActionKind, FilterRule
from common.printable import json_text
from common.queue.explanation import LockChain, LockWait, Reason, WaitsForLock
from common.queue.ruleloads import BucketLoad, RuleLoad, RuleLoads
from common.resources import Unit
from common.schedules.schedule import RunState, Schedule, ScheduleRun
from common.words.fields import size
from common.words.times import bare_clock, duration
from daemons.rapid.page.views.frame import TextPart, job_href, lock_href, owner_href, with_query
from protocol.luxi.queries import JOB, LockRow
from protocol.luxi.queue import ResourceUse, ScheduleView

# The locks: who holds each, since when, and who waits for it, in order; and the jobs whose end others wait for.


@attrs.frozen
class Waiter:
    owner: TextPart
    # mode, or the final states of a job
    wants: str


@attrs.frozen
class LockLine:
    name: TextPart
    # "": nobody holds it
    mode: str
    holders: tuple[TextPart, ...]
    # for how long the longest holder has it, as far as is known
    lasting: str
    # in the order in which they asked
    waiters: tuple[Waiter, ...]


def lock_lines(
    rows: Sequence[LockRow], reasons: Mapping[int, Sequence[Reason] | None], now: float
) -> tuple[LockLine, ...]:
    """The rows that are locks; luxid lists jobs that others wait for among them, as Ganeti does.

    Args: reasons: of the jobs that wait; from them it is known since when locks are held.
    """
    since = dict(_held_since(reasons))
    return tuple(_lock_line(row, since, now) for row in rows if not is_dependency(row))


def is_dependency(row: LockRow) -> bool:
    """Whether it is a job whose end others wait for."""
    return row.name.startswith(JOB)


def _lock_line(row: LockRow, since: Mapping[tuple[str, str], float], now: float) -> LockLine:
    held = [at for owner in row.owners if (at := since.get((row.name, owner))) is not None]
    return LockLine(
        TextPart(row.name, owner_href(row.name) if is_dependency(row) else lock_href(row.name)),
        row.mode or "",
        tuple(TextPart(owner, owner_href(owner)) for owner in row.owners),
        duration(now - min(held)) if held else "",
        tuple(Waiter(TextPart(owner, owner_href(owner)), wants) for wants, owners in row.pending for owner in owners),
    )


def _held_since(reasons: Mapping[int, Sequence[Reason] | None]) -> Iterator[tuple[tuple[str, str], float]]:
    for told in reasons.values():
        for reason in told or ():
            for wait in (reason, *(reason.waits if isinstance(reason, LockChain) else ())):
                for held in wait.holders if isinstance(wait, WaitsForLock | LockWait) else ():
                    if held.since is not None:
                        yield (str(held.lock), held.owner), held.since


def waiting_jobs(rows: Sequence[LockRow]) -> tuple[int, ...]:
    """The jobs that wait in these rows, each once."""
    owners = [owner for row in rows for _, pending in row.pending for owner in pending if owner.startswith(JOB)]
    return tuple(int(owner.removeprefix(JOB)) for owner in dict.fromkeys(owners))


def rows_of_owner(rows: Sequence[LockRow], owner: str) -> tuple[LockRow, ...]:
    """The rows in which this owner holds or waits."""
    return tuple(row for row in rows if owner in row.owners or any(owner in owners for _, owners in row.pending))


def awaited_lines(rows: Sequence[LockRow]) -> tuple[LockLine, ...]:
    """The rows that are jobs whose end others wait for."""
    return tuple(_lock_line(row, {}, 0.0) for row in rows if is_dependency(row))


def dependents(rows: Sequence[LockRow], job_id: int) -> tuple[Waiter, ...]:
    """The jobs that wait for the end of this one."""
    name = f"{JOB}{job_id}"
    row = next((row for row in rows if row.name == name), None)
    return () if row is None else _lock_line(row, {}, 0.0).waiters


# The filter rules in the order in which they are evaluated, and the buckets of rate limits.


RULE_FIELDS: Final = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")


@attrs.frozen
class RuleLine:
    uuid: str
    priority: int
    watermark: int
    # word of the action, which is a class of the style sheet in small letters, too
    action: str
    # number of a RATE_LIMIT; None: another action
    limit: int | None
    # (what is tested, expression as JSON)
    predicates: tuple[tuple[str, str], ...]
    # (source, reason, instant)
    trail: tuple[tuple[str, str, str], ...]
    # number of queued jobs that it holds back; None: it holds none back by its kind
    held: int | None
    # of a RATE_LIMIT: number of jobs that count against it now
    running: int
    # number of jobs that it rejected since luxid's start
    rejected: int

    @property
    def name(self) -> str:
        """What people gave as the reason; else the beginning of its uuid."""
        return next((reason for _, reason, _ in self.trail if reason), f"{self.uuid[:8]}…")


@attrs.frozen
class BucketLine:
    name: str
    running: int
    limit: int
    waiting: int

    @classmethod
    def of(cls, load: BucketLoad) -> Self:
        return cls(load.name, load.running, load.limit, load.held)


def rule_lines(rules: Sequence[FilterRule], loads: RuleLoads) -> tuple[RuleLine, ...]:
    """A rule that was added while the two were read has no load yet."""
    by_uuid = {load.uuid: load for load in loads.rules}
    in_order = sorted(rules, key=lambda rule: rule.place)
    return tuple(_rule_line(rule, by_uuid.get(rule.uuid) or RuleLoad(rule.uuid)) for rule in in_order)


def bucket_lines(loads: RuleLoads) -> tuple[BucketLine, ...]:
    """Those that hold back most jobs come first."""
    return tuple(map(BucketLine.of, loads.buckets))


def _rule_line(rule: FilterRule, load: RuleLoad) -> RuleLine:
    return RuleLine(
        rule.uuid,
        rule.priority,
        rule.watermark,
        rule.action.kind.value,
        rule.action.limit,
        tuple(
            (each.predicate, "always" if each.expression is None else json_text(each.expression))
            for each in rule.predicates
        ),
        tuple((entry.source, entry.reason, bare_clock(entry.at_ns / 1e9)) for entry in rule.reason_trail),
        load.held if rule.action.kind in (ActionKind.PAUSE, ActionKind.RATE_LIMIT) else None,
        load.running,
        load.rejected,
    )


# Schedules, as their page shows them.


# runs that a row shows
_RUNS = 5


@attrs.frozen
class RunLine:
    at: str
    job: TextPart | None
    # what became of it, if no job did
    told: str
    is_wrong: bool


@attrs.frozen
class ScheduleLine:
    name: str
    # the list of its jobs
    jobs: str
    when: str
    user: str
    # "": it can run
    stopped: str
    is_paused: bool
    next: tuple[str, ...]
    # newest first
    runs: tuple[RunLine, ...]
    active: TextPart | None
    overlap: str
    missed: str


def schedule_line(view: ScheduleView, now: float) -> ScheduleLine:
    schedule = view.schedule
    return ScheduleLine(
        schedule.name,
        with_query("/ui/jobs", [("where", f'label.schedule="{schedule.name}"')]),
        when_words(schedule),
        schedule.http_user or schedule.user,
        view.stopped,
        schedule.is_paused,
        tuple(f"{bare_clock(at)}, in {duration(at - now)}" if at > now else bare_clock(at) for at in view.next_at),
        tuple(_run(run) for run in reversed(schedule.runs[-_RUNS:])),
        None if view.active_job is None else TextPart(f"job {view.active_job}", job_href(view.active_job)),
        schedule.overlap.value,
        schedule.missed.value,
    )


def when_words(schedule: Schedule) -> str:
    """`0 2 * * * in Europe/Athens`, `every 30.0s`."""
    return f"{schedule.cron} in {schedule.zone}" if schedule.cron else f"every {duration(schedule.every_s)}"


def _run(run: ScheduleRun) -> RunLine:
    by_hand = " by hand" if run.is_by_hand else ""
    job = None if run.job_id is None else TextPart(f"job {run.job_id}", job_href(run.job_id))
    told = "" if run.state is RunState.SUBMITTED else f"{run.state.value}: {run.why}" if run.why else run.state.value
    return RunLine(f"{bare_clock(run.nominal_at)}{by_hand}", job, told, run.state is RunState.REFUSED)


# Counted resources, as their page shows them.


# users that a row names
USERS: Final = 20


@attrs.frozen
class ResourceLine:
    key: str
    used: str
    total: str
    # more than 100: more are in use than there are
    percent: int
    is_over: bool
    # (job, its units), those with the most first
    users: tuple[tuple[TextPart, str], ...]
    # number of users that are not named
    more: int
    waiting: int


def resource_line(use: ResourceUse) -> ResourceLine:
    resource = use.resource

    def shown(count: int) -> str:
        return size(count) if resource.unit is Unit.BYTES else f"{count:,}"

    users = sorted(use.users, key=lambda each: (-each[1], each[0]))
    return ResourceLine(
        resource.key,
        shown(use.used),
        shown(resource.total),
        round(100 * use.used / resource.total) if resource.total else 100 if use.used else 0,
        use.used > resource.total,
        tuple((TextPart(f"job {job_id}", job_href(job_id)), shown(count)) for job_id, count in users[:USERS]),
        max(0, len(users) - USERS),
        use.waiting,
    )
