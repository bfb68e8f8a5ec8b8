"""Why a job does not run yet: every reason that holds it, with the jobs and rules that cause it.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Final, assert_never

import attrs

from common.ids import JobId
from common.locks import Owner
from common.objects.filter import Action, ActionKind
from common.queue.explanation import (
    BatchFull,
    BeginsLater,
    BeingWritten,
    Faded,
    HeldByOrphan,
    HeldByRule,
    Holding,
    InLine,
    LacksUnits,
    LetsPass,
    LevelWeight,
    LimitFull,
    LockChain,
    LockWait,
    NoFreeSlot,
    NotKnown,
    OnHold,
    Reason,
    SlotsReserved,
    TriesAgain,
    UserAtBound,
    WaitsForJob,
    WaitsForLock,
    YieldsUnits,
)
from common.queue.jobs import Job, JobState
from common.queue.reasons import next_try
from common.queue.terms import terms_of
from daemons.luxid.core.choice.limits import BatchLimit, BucketLimit, RuleLimit, UserRank
from daemons.luxid.core.choice.weights import LEVELS, clashing_locks
from daemons.luxid.core.queue.entry import Entry, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from protocol.wconfd.locks import InTheWay, OwnerWait, WaitExplanation

# jobs that come first and are named
AHEAD_NAMED: Final = 10
# locks of one running job that are named
LOCKS_NAMED: Final = 5


@attrs.frozen
class FollowedJob:
    """A live job as followers see it."""

    state: JobState
    # seconds since the epoch: it runs or waits for locks since then, or was received then; None: unknown
    since: float | None


def explain(
    queue: JobQueue, job_id: JobId, now_s: float, shown: Callable[[JobId], FollowedJob | None]
) -> tuple[Reason, ...]:
    """Every reason that luxid has why the job does not run; none if it runs and may go on, or has ended.

    Args:
        shown: a live job as it is shown; None: there is none.
    Cost: as `ReadyJobs.ahead` if the job is ready, else linear in what it names.
    """
    entry = queue.entry(job_id)
    if entry is None:
        return ()
    match entry.phase:
        case Phase.ORPHANED:
            return ()
        case Phase.RUNNING:
            return tuple(_rule(entry)) if queue.should_pause(job_id) else ()
        case Phase.HELD | Phase.STARTING:
            return (BeingWritten(entry.phase.value),)
        case Phase.DEFERRED:
            later = (*_later(entry.job), *_dependencies(queue, job_id, shown))
            return (*later, *_rule(entry), *_limits(queue, entry), *_units(queue, entry))
        case Phase.BLOCKED:
            blocked = (*_dependencies(queue, job_id, shown), *_rule(entry), *_limits(queue, entry))
            return (*blocked, *_units(queue, entry))
        case Phase.READY:
            held = (*_rule(entry), *_limits(queue, entry), *_units(queue, entry), *_slots(queue, entry))
            # a paused job stands in no line, even if others wait
            return held if entry.ruling.is_pause else (*held, *_order(queue, entry, now_s))
        case _:
            assert_never(entry.phase)


def _later(job: Job) -> Iterator[Reason]:
    """All that defers the job; what ends first, too."""
    terms = terms_of(job)
    if terms.hold is not None:
        yield OnHold(terms.hold.by, terms.hold.at, terms.hold.why)
    if terms.begin_at is not None and job.start_at is None:
        yield BeginsLater(terms.begin_at)
    if (failed := next_try(job)) is not None and (index := job.next_index) is not None:
        most = _most_tries(job.ops[index].input, failed.number + 1)
        yield TriesAgain(failed.next_at, failed.number + 1, most, failed.why)


def _most_tries(op: Mapping[str, object], at_least: int) -> int:
    """How many tries an opcode may have: commands say how often, deliveries after which pauses."""
    match op:
        case {"retries": int(retries)}:
            return 1 + retries
        case {"pauses": list() | tuple() as pauses}:
            return 1 + len(pauses)
        case _:
            return at_least


def _dependencies(queue: JobQueue, job_id: JobId, shown: Callable[[JobId], FollowedJob | None]) -> Iterator[Reason]:
    for dependency in queue.dependencies(job_id):
        target = JobId(dependency.job_id)
        found = shown(target)
        state, since = (found.state, found.since) if found else (None, None)
        yield WaitsForJob(target, state, since, dependency.wanted)


def _rule(entry: Entry) -> Iterator[Reason]:
    rule = entry.ruling.rule
    if rule is not None and entry.ruling.kind in (ActionKind.PAUSE, ActionKind.REJECT):
        yield HeldByRule(rule.uuid, Action(entry.ruling.kind), rule.reason_trail)


def _limits(queue: JobQueue, entry: Entry) -> Iterator[Reason]:
    rule = entry.ruling.rule
    for limit in entry.limits:
        members = sorted(queue.limit_usage.members(limit))
        if len(members) < limit.count:
            continue
        if isinstance(limit, BatchLimit):
            yield BatchFull(limit.name, len(members), limit.count, tuple(members))
            continue
        if rule is not None and isinstance(limit, RuleLimit):
            yield HeldByRule(rule.uuid, Action(entry.ruling.kind, limit.count), rule.reason_trail)
        yield LimitFull(limit.name, isinstance(limit, BucketLimit), len(members), limit.count, tuple(members))


def _units(queue: JobQueue, entry: Entry) -> Iterator[Reason]:
    queue.ready.settle_units()
    stock, job_id = queue.units.stock, entry.job.job_id
    is_next = queue.units.passes.is_overdue(job_id)
    if entry.admission.wants and not stock.is_known:
        yield NotKnown("how many units of resources there are", "the lock daemon (wconfd) has not told it yet")
        return
    for want in entry.admission.wants:
        free = stock.free(want.name)
        if want.count > free:
            members = tuple(sorted(stock.users(want.name)))
            total, unit = stock.total(want.name), stock.unit(want.name)
            yield LacksUnits(want.name, want.count, free, total, members, is_next, unit)
        elif queue.ready.is_short(job_id, want) and (other := queue.units.kept_for(want)) not in (None, job_id):
            yield YieldsUnits(want.name, other)


def _slots(queue: JobQueue, entry: Entry) -> Iterator[Reason]:
    users, user = queue.users, entry.user
    standing = users.standing(user)
    if queue.free_slots() <= 0:
        yield NoFreeSlot(queue.slots - queue.free_slots(), queue.slots, tuple(sorted(queue.running())))
    elif standing is UserRank.NOT_NOW:
        yield SlotsReserved(users.all_running, users.bounds.slots_of_all(queue.slots), queue.slots)
    if user is not None and users.is_at_bound(user):
        yield UserAtBound(users.running(user.key), users.bounds.slots_of(user, queue.slots))


def _order(queue: JobQueue, entry: Entry, now_s: float) -> Iterator[Reason]:
    count, first = queue.ready.ahead(entry, now_s, AHEAD_NAMED)
    yield InLine(count + 1, first)
    ticks = max(0, queue.weights.tick(now_s) - entry.received_tick)
    yield Faded(queue.running_locks.weight_of(entry.needs), queue.ready.rank(entry, now_s)[2], ticks)
    for level_index, weight, job_ids in queue.running_locks.causes(entry.needs):
        level = "big lock" if level_index is None else LEVELS[level_index].value
        yield LevelWeight(level, weight, job_ids, tuple(_held(queue, entry, level_index, job_ids)))


def _held(queue: JobQueue, entry: Entry, level_index: int | None, job_ids: Iterable[JobId]) -> Iterator[Holding]:
    running_locks = queue.running_locks
    needs = running_locks.with_aliases(entry.needs)
    for job_id in job_ids:
        clashing = clashing_locks(needs, running_locks.held_locks(job_id), level_index)
        for lock, mode in islice(clashing, LOCKS_NAMED):
            yield Holding(f"job/{job_id}", job_id, lock, mode)


# Why a job's process waits for locks, out of what wconfd tells: each lock with its holders, and the chain behind them.
#
# Source: DESIGN section 6, "Explain".


def lock_reasons(told: WaitExplanation) -> Iterator[Reason]:
    """The reasons in wconfd's explanation of one owner's wait; none if it does not wait."""
    if not told.waits:
        return
    own, *behind = told.waits
    for wait in _waits(own):
        yield WaitsForLock(wait.lock, wait.mode, wait.waiting_since, wait.holders, told.counting_since)
    if own.held_back_by:
        names, job_ids = _names(own.held_back_by), _job_ids(own.held_back_by)
        yield LetsPass(names, job_ids, own.waiting_since, told.counting_since)
    if behind:
        waits = tuple(wait for each in behind for wait in _waits(each))
        rings = tuple(map(_names, told.rings))
        yield LockChain(waits, _names(told.roots), _job_ids(told.roots), rings, told.counting_since)
    for orphan in told.ghosts:
        nodes = tuple(sorted({command.node for command in orphan.commands}))
        yield HeldByOrphan(str(orphan.owner), _job_id(orphan.owner), nodes, orphan.since, orphan.ends_at)


def _waits(wait: OwnerWait) -> Iterator[LockWait]:
    """One for each lock that is asked for and not free, in lock order."""
    for (lock, mode), rows in groupby(wait.in_the_way, lambda row: (row.lock, row.mode)):
        holders = tuple(map(_holding, rows))
        yield LockWait(str(wait.owner), _job_id(wait.owner), lock, mode, wait.waiting_since, holders)


def _holding(row: InTheWay) -> Holding:
    return Holding(str(row.holder), _job_id(row.holder), row.held, row.held_mode, row.held_since)


def _job_id(owner: Owner) -> JobId | None:
    return JobId(owner.ident) if isinstance(owner.ident, int) else None


def _names(owners: tuple[Owner, ...]) -> tuple[str, ...]:
    return tuple(map(str, owners))


def _job_ids(owners: tuple[Owner, ...]) -> tuple[JobId, ...]:
    return tuple(job_id for owner in owners if (job_id := _job_id(owner)) is not None)
