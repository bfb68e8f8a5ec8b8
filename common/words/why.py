"""Why jobs do not run, and what they waited for, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.locks import Lock
from common.objects.filter import Action, ActionKind
from common.printable import json_text
from common.queue.explanation import (
    BatchFull,
    BeginsLater,
    BeingWritten,
    Cause,
    Ending,
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
    NoFreeSlot,
    NotKnown,
    Obstacle,
    OnHold,
    Outlived,
    Reason,
    SilentNode,
    SlotsReserved,
    Span,
    TakenUp,
    TriesAgain,
    Unreadable,
    UserAtBound,
    WaitKind,
    WaitsForJob,
    WaitsForLock,
    YieldsUnits,
)
from common.queue.jobs import FINAL, JobState
from common.queue.reasons import user_reason
from common.resources import units_text
from common.shapes import OtherKind
from common.words.times import clock, duration

# Why a job is to begin later, or lacks resources, in words.
#
# Source: DESIGN section 16; `common.queue.explanation`.


# reasons that come from the job's terms and tries
OfTerms = OnHold | BeginsLater | TriesAgain | LacksUnits | YieldsUnits
_USERS_NAMED: Final = 5


def terms_in_words(reason: OfTerms, now: float) -> str:
    """A line for the reason. Args: now: seconds since the epoch."""
    match reason:
        case OnHold():
            return _hold(reason, now)
        case BeginsLater():
            return f"begins {_at(reason.at, now)}"
        case TriesAgain():
            return f"try {reason.number} of {reason.most} begins {_at(reason.at, now)}; the last one {reason.why}"
        case LacksUnits():
            return _lack(reason)
        case YieldsUnits():
            return f"units of '{reason.resource}' are kept for job/{reason.job_id}, which has waited for long"
    assert_never(reason)


def _at(at: float, now: float) -> str:
    return f"in {duration(at - now)}, at {clock(at)}" if at > now else "now"


def _hold(reason: OnHold, now: float) -> str:
    by = f" by {reason.by}" if reason.by else ""
    why = f": {reason.why}" if reason.why else ""
    return f"is held{by} for {duration(now - reason.since)}{why}; gnt-job release lets it go"


def _lack(reason: LacksUnits) -> str:
    if reason.total is None:
        how = f"gantry resource set {reason.resource} TOTAL"
        return f"wants {reason.wanted} of '{reason.resource}', whose total is not set; set it with: {how}"
    wanted, free, total = (units_text(each, reason.unit) for each in (reason.wanted, reason.free, reason.total))
    if reason.wanted > reason.total:
        return f"wants {wanted} of '{reason.resource}', and there are only {total}"
    kept = "; they are kept for it as they become free" if reason.is_next else ""
    members = _users_of(reason.members)
    return f"wants {wanted} of '{reason.resource}', {free} of {total} are free{members}{kept}"


def _users_of(job_ids: Sequence[int]) -> str:
    if not job_ids:
        return ""
    return f"; {_jobs(job_ids, named=_USERS_NAMED)} {'uses' if len(job_ids) == 1 else 'use'} it"


# Why a job does not run, in words: one line for each of luxid's reasons.
#
# Source: DESIGN section 6, "Explain"; `common.queue.explanation`.


# maximum of processes that a line names
_PIDS_NAMED: Final = 10
_ENDS: Final = {JobState.SUCCESS: "succeed", JobState.ERROR: "fail", JobState.CANCELED: "be canceled"}


def in_words(reason: Reason, now: float) -> str:
    """A line for the reason; for an unknown kind its values as JSON.

    Args: now: seconds since the epoch; durations end here.
    """
    match reason:
        case WaitsForJob():
            return _dependency(reason, now)
        case HeldByRule():
            return _rule(reason)
        case LimitFull():
            return _limit(reason)
        case BatchFull():
            return _batch(reason)
        case NoFreeSlot():
            return f"no place is free, {reason.used} of {reason.slots} are taken: {_jobs(reason.running)}"
        case SlotsReserved():
            kept = reason.slots - reason.limit
            return (
                f"the last {kept} of {reason.slots} places are reserved for users with the role 'operate'; "
                f"jobs of the others have {reason.used} of at most {reason.limit}"
            )
        case UserAtBound():
            return (
                f"its user runs {reason.running_count} jobs, of at most {reason.limit} while others wait; "
                "theirs are started first"
            )
        case InLine():
            return _order(reason)
        case Faded():
            return _aged(reason)
        case LevelWeight():
            return _weight(reason, now)
        case BeingWritten():
            return f"luxid is busy with it ({reason.phase}), that takes a moment"
        case Obstacle():
            return f"no job is started: {reason.what}"
        case Unreadable():
            return f"the file of job/{reason.job_id} cannot be read just now, and is tried again: {reason.why}"
        case OnHold() | BeginsLater() | TriesAgain() | LacksUnits() | YieldsUnits():
            return terms_in_words(reason, now)
        case (
            WaitsForLock()
            | LetsPass()
            | LockChain()
            | HeldByOrphan()
            | Ending()
            | Outlived()
            | TakenUp()
            | SilentNode()
            | NotKnown()
        ):
            return _process_in_words(reason, now)
        case OtherKind():
            return json_text({"kind": reason.kind, **reason.values})
    assert_never(reason)


# reasons of a job that has a process, or is about to get another one
_OfProcess = WaitsForLock | LetsPass | LockChain | HeldByOrphan | Ending | Outlived | TakenUp | SilentNode | NotKnown


def _process_in_words(reason: _OfProcess, now: float) -> str:
    """A line for a reason of a job that has a process, or is about to get another one."""
    match reason:
        case WaitsForLock():
            return _lock(reason, now)
        case LetsPass():
            return _turn(reason, now)
        case LockChain():
            return _chain(reason, now)
        case HeldByOrphan():
            return _orphan(reason, now)
        case Ending():
            return _ending(reason)
        case Outlived():
            left = f": pid {pids_in_words(reason.pids)}" if reason.pids else ""
            return f"its process has died; what it started lives on, and the job fails when that has ended{left}"
        case TakenUp():
            return _taken_up(reason)
        case SilentNode():
            return _silent_node(reason, now)
        case NotKnown():
            return f"it is not known {reason.what}: {reason.why}"
    assert_never(reason)


def in_short(reasons: Sequence[Reason], now: float) -> str:
    """A line with the first lasting reason and others of its kind; empty: there is none.

    Args: now: as for `in_words`.
    """
    lasting = [reason for reason in worth_telling(reasons) if not isinstance(reason, BeingWritten)]
    return "; ".join(in_words(reason, now) for reason in lasting if type(reason) is type(lasting[0]))


def worth_telling(reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons, each said once.

    Without the explanation of a place in the line, unless other jobs are ahead in it; a rule whose limit is full is
    told together with that.
    """
    is_behind = any(isinstance(reason, InLine) and reason.position > 1 for reason in reasons)
    told = [reason for reason in reasons if is_behind or not isinstance(reason, Faded | LevelWeight)]
    full = {reason.name for reason in told if isinstance(reason, LimitFull) and not reason.is_bucket}
    rules = {reason.uuid: reason for reason in told if isinstance(reason, HeldByRule) and reason.uuid in full}
    return [_with_words(reason, rules) for reason in told if reason not in rules.values()]


def _with_words(reason: Reason, rules: Mapping[str, HeldByRule]) -> Reason:
    """The limit of a rule, named with the reason that was given for the rule."""
    if not isinstance(reason, LimitFull) or reason.is_bucket or reason.name not in rules:
        return reason
    words = _rule_words(rules[reason.name])
    return attrs.evolve(reason, name=f"{reason.name} ({words})") if words else reason


def _dependency(reason: WaitsForJob, now: float) -> str:
    lasting = f" for {_elapsed(now, reason.since)}" if reason.since is not None else ""
    state = f", which is {reason.state.value}{lasting}," if reason.state else ""
    is_any = not 0 < len(reason.wanted) < len(FINAL)
    end = "end" if is_any else " or ".join(_ENDS[each] for each in reason.wanted)
    return f"waits for job/{reason.job_id}{state} to {end}"


def _rule(reason: HeldByRule) -> str:
    words = _rule_words(reason)
    return f"{_effect(reason.action)} filter rule {reason.uuid}{f': {words}' if words else ''}"


def _rule_words(reason: HeldByRule) -> str:
    """The reason that was given for the rule; "": none."""
    return user_reason(reason.reason_trail)


def _effect(action: Action) -> str:
    if action.limit is not None:
        beside = action.limit - 1
        return f"may run beside at most {beside} others of" if beside else "must run alone among those of"
    return "is rejected by" if action.kind is ActionKind.REJECT else "is paused by"


def _limit(reason: LimitFull) -> str:
    name = f"rate limit '{reason.name}'" if reason.is_bucket else f"limit of filter rule {reason.name}"
    return f"the {name} is full, {reason.running_count} of {reason.limit} run: {_jobs(reason.members)}"


def _batch(reason: BatchFull) -> str:
    run = "runs" if reason.running_count == 1 else "run"
    of_batch = f"{reason.running_count} of its batch {run}, at most {reason.limit}"
    return f"waits for a place: {of_batch}: {_jobs(reason.members)}"


def _order(reason: InLine) -> str:
    if reason.position == 1:
        return "is first in line"
    return f"is number {reason.position} in line, behind {_jobs(reason.ahead, reason.position - 1)}"


def _aged(reason: Faded) -> str:
    faded = f", {reason.aged:g} of it left after {reason.ticks} ticks" if reason.ticks else ""
    return f"its locks weigh {reason.static:g} in the line{faded}"


def _weight(reason: LevelWeight, now: float) -> str:
    beside = f"beside those of {_jobs(reason.job_ids)}" if reason.job_ids else "as they stop all others"
    holdings = _holdings(now, reason.held)
    return f"of that {reason.weight:g} for {reason.level} locks, {beside}{f': {holdings}' if holdings else ''}"


def _lock(reason: WaitsForLock, now: float) -> str:
    holders = _holdings(now, reason.holders, reason.lock, reason.counting_since)
    return f"{_has_waited(reason, now)} for {reason.lock} ({reason.mode.value}), held by {holders}"


def _turn(reason: LetsPass, now: float) -> str:
    was = "was" if len(reason.owners) == 1 else "were"
    return f"{_has_waited(reason, now)} and lets {', '.join(reason.owners)} go first, which {was} passed too often"


def _chain(reason: LockChain, now: float) -> str:
    parts = list(_links(reason, now))
    parts += [f"{' waits for '.join((*ring, ring[0]))}: none of them can go on, cancel one" for ring in reason.rings]
    if reason.roots:
        parts.append(f"the chain ends at {', '.join(reason.roots)}")
    return "; ".join(parts)


def _links(reason: LockChain, now: float) -> Iterator[str]:
    """The waits of owners that are not jobs; waits of jobs are told under the jobs."""
    for wait in reason.waits:
        if wait.job_id is None:
            holders = _holdings(now, wait.holders, wait.lock, reason.counting_since)
            yield f"{wait.owner} waits for {wait.lock} ({wait.mode.value}), held by {holders}"


def _has_waited(reason: WaitsForLock | LetsPass, now: float) -> str:
    return f"has waited {_elapsed(now, reason.waiting_since, reason.counting_since)}"


def _holdings(now: float, held: Sequence[Holding], asked: Lock | None = None, counting: float | None = None) -> str:
    """`job/4 (exclusive, for 3m12s), job/5 (node/[lockset] shared)`; another lock than the asked one is named."""
    return ", ".join(_holding(now, each, asked, counting) for each in held)


def _holding(now: float, held: Holding, asked: Lock | None, counting: float | None) -> str:
    lock = "" if held.lock == asked else f"{held.lock} "
    lasting = f", for {_elapsed(now, held.since, counting)}" if held.since is not None or counting is not None else ""
    return f"{held.owner} ({lock}{held.mode.value}{lasting})"


def _elapsed(now: float, since: float | None, counting: float | None = None) -> str:
    """Args: counting: start of the memory; an older beginning is unknown."""
    if since is None:
        return f"more than {duration(now - (counting or now))}"
    return duration(now - since)


def _ending(reason: Ending) -> str:
    # none is left once all have ended, for the moment in which that is noticed
    left = f": pid {pids_in_words(reason.pids)}" if reason.pids else ""
    return f"is being killed and keeps its locks until all of it has ended{left}"


def _orphan(reason: HeldByOrphan, now: float) -> str:
    nodes = " and ".join(f"'{node}'" for node in reason.nodes)
    by_time = "" if reason.ends_at is None else f", {duration(max(0.0, reason.ends_at - now))} are over,"
    return (
        f"{reason.owner} has orphaned locks: its process is gone for {_elapsed(now, reason.since)}, and its "
        f"command may still run on node {nodes}; the locks are kept until the node tells that it has ended{by_time} or "
        "an operator says by 'gantry fenced' that the node is down"
    )


def _taken_up(reason: TakenUp) -> str:
    pause = f", after a pause, as {reason.deaths} have died in a row" if reason.deaths > 1 else ""
    return f"its process died; a new one takes its command on node '{reason.node}' up{pause}"


def _silent_node(reason: SilentNode, now: float) -> str:
    state = "may run there" if reason.may_run else "has not begun"
    left = "" if reason.until is None else f", for {duration(max(0.0, reason.until - now))} more"
    silence = f"waits for node '{reason.node}', which has not answered for {duration(max(0.0, now - reason.since))}"
    return f"{silence}{left}; its command {state}: {reason.why}"


def pids_in_words(pids: Sequence[int]) -> str:
    """`311, 312 and 4 more`."""
    more = f" and {len(pids) - _PIDS_NAMED} more" if len(pids) > _PIDS_NAMED else ""
    return f"{', '.join(map(str, pids[:_PIDS_NAMED]))}{more}"


# maximum of jobs that a line names
_NAMED: Final = 10


def _jobs(job_ids: Sequence[int], count: int | None = None, named: int = _NAMED) -> str:
    """`job/1, job/2 and 3 others`; `count` is the total if it is larger than the list."""
    total = len(job_ids) if count is None else count
    shown = [f"job/{job_id}" for job_id in job_ids[:named]]
    left = total - len(shown)
    return f"{', '.join(shown)}{f' and {left} others' if left > 1 else ' and another' if left else ''}"


# The waits of a job so far, in words: one line.
#
# Source: DESIGN section 6, "Explain"; `protocol.luxi.why.ReadJobWaits`.


# maximum of causes that the line names; the rest is summed up
_TOLD: Final = 6


def waited_words(spans: Sequence[Span], now: float) -> str | None:
    """`12.3s in all: 8.1s for job 17 to end, 4.2s for its turn`; None: the job did not wait.

    Equal causes are summed up, in the order of their first wait; of many only the longest are named.

    Args:
        now: seconds since the epoch; the end of a wait that still lasts.
    """
    if not spans:
        return None
    sums: dict[str, float] = {}
    for span in spans:
        words = cause_words(span.cause)
        sums[words] = sums.get(words, 0.0) + max(0.0, (now if span.until is None else span.until) - span.since)
    present = cause_words(spans[-1].cause) if spans[-1].until is None else None
    told = ", ".join(_told(sums, present))
    total = f"{duration(sum(sums.values()))} {'in all' if present is None else 'so far'}: " if len(sums) > 1 else ""
    return f"{total}{told}"


def _told(sums: Mapping[str, float], present: str | None) -> list[str]:
    """Args: present: what the job still waits for."""
    longest = sorted(sums, key=lambda words: -sums[words])[:_TOLD] if len(sums) > _TOLD + 1 else list(sums)
    told = [
        f"{duration(lasted)} {words}{' (it still waits)' if words == present else ''}"
        for words, lasted in sums.items()
        if words in longest
    ]
    if left := [lasted for words, lasted in sums.items() if words not in longest]:
        told.append(f"{duration(sum(left))} for {len(left)} other reasons")
    if present is not None and present not in longest:
        told[-1] += f" (it still waits {present})"
    return told


def cause_words(cause: Cause) -> str:
    """What a job waited for: `for jobs 1, 2 to end`, `for its turn`."""
    match cause.kind:
        case WaitKind.HOLD:
            return f"held{''.join(f' by {name}' for name in cause.names)}{_because(cause)}"
        case WaitKind.BEGIN:
            return "for its time to begin"
        case WaitKind.RETRY:
            return f"before its next try{_because(cause)}"
        case WaitKind.DEPENDENCY:
            return f"for {_causing_jobs(cause)} to end"
        case WaitKind.FILTER:
            return f"under filter rule {_name(cause)}{_because(cause)}"
        case WaitKind.LIMIT:
            return _causing_limit(cause)
        case WaitKind.BATCH:
            return f"for {'the place' if cause.limit == 1 else f'one of the {cause.limit} places'} of its batch"
        case WaitKind.RESOURCE:
            return f"for {cause.limit or 'units'} of '{_name(cause)}'"
        case WaitKind.TURN:
            return "for its turn"
        case WaitKind.OBSTACLE:
            return "as no job could be started"
        case WaitKind.START:
            return "for its process to be made"
        case WaitKind.LOCKS:
            return _locks(cause)
        case WaitKind.UNKNOWN:
            return "before luxid was restarted"
    assert_never(cause.kind)


def _because(cause: Cause) -> str:
    return f" ({cause.reason})" if cause.reason else ""


def _causing_limit(cause: Cause) -> str:
    name = f"rate limit '{_name(cause)}'" if cause.is_bucket else f"the limit of filter rule {_name(cause)}"
    return f"for one of the {cause.limit or ''} places in {name}" if cause.limit != 1 else f"for {name}"


def _locks(cause: Cause) -> str:
    locks = f"{'the lock' if len(cause.names) == 1 else 'the locks'} {', '.join(cause.names)}"
    holders = " and ".join(each for each in (_causing_jobs(cause), ", ".join(cause.owners)) if each)
    return f"for {locks}{f' held by {holders}' if holders else ''}"


def _name(cause: Cause) -> str:
    return next(iter(cause.names), "unknown")


def _causing_jobs(cause: Cause) -> str:
    """`job 1`, `jobs 1, 2 and 3 others`; empty: none."""
    if not cause.job_ids:
        return ""
    left = f" and {cause.more} others" if cause.more > 1 else " and another" if cause.more else ""
    noun = "job" if len(cause.job_ids) == 1 and not cause.more else "jobs"
    return f"{noun} {', '.join(map(str, cause.job_ids))}{left}"


# The jobs that stop others, from luxid's reasons.
#
# Source: DESIGN section 6, "Explain".


def culprits(reasons: Sequence[Reason] | None) -> Iterator[int]:
    """The jobs that block a job with these reasons, by their locks or because it depends on them."""
    for reason in reasons or ():
        if isinstance(reason, WaitsForJob):
            yield reason.job_id
        elif isinstance(reason, WaitsForLock):
            yield from _job_ids(reason.holders)
        elif isinstance(reason, LetsPass):
            yield from reason.job_ids
        elif isinstance(reason, LockChain):
            # an owner that is not a job has no reasons of its own: go on with the jobs that block that owner
            for wait in reason.waits:
                if wait.job_id is None:
                    yield from _job_ids(wait.holders)


def _job_ids(holders: Sequence[Holding]) -> Iterator[int]:
    return (holder.job_id for holder in holders if holder.job_id is not None)
