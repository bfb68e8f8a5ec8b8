"""Why a job does not run, in words: one line for each of luxid's reasons.

Source: DESIGN section 6, "Explain"; `common.queue.explanation`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.locks import Lock
from common.queue.explanation import (
    BatchFull,
    BeginsLater,
    BeingWritten,
    Ending,
    Faded,
    HeldByGhost,
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
    TakenUp,
    TriesAgain,
    Unreadable,
    UserAtBound,
    WaitsForJob,
    WaitsForLock,
    YieldsUnits,
)
from common.queue.filters.actions import Action, ActionKind
from common.queue.jobs import FINAL, JobState
from common.shapes import OtherKind
from common.words.text import json_text
from common.words.times import duration
from common.words.why.deferrals import terms_in_words

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
            | HeldByGhost()
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
_OfProcess = WaitsForLock | LetsPass | LockChain | HeldByGhost | Ending | Outlived | TakenUp | SilentNode | NotKnown


def _process_in_words(reason: _OfProcess, now: float) -> str:
    """A line for a reason of a job that has a process, or is about to get another one."""
    match reason:
        case WaitsForLock():
            return _lock(reason, now)
        case LetsPass():
            return _turn(reason, now)
        case LockChain():
            return _chain(reason, now)
        case HeldByGhost():
            return _ghost(reason, now)
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
    return next((entry.reason for entry in reason.reason_trail if entry.source == "gnt:user"), "")


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


def _ghost(reason: HeldByGhost, now: float) -> str:
    nodes = " and ".join(f"'{node}'" for node in reason.nodes)
    by_time = "" if reason.ends_at is None else f", {duration(max(0.0, reason.ends_at - now))} are over,"
    return (
        f"{reason.owner} is a ghost: its process is gone for {_elapsed(now, reason.since)}, and its command may still "
        f"run on node {nodes}; its locks are kept until the node tells that it has ended{by_time} or an operator says "
        "by 'gantry fenced' that the node is down"
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


def _jobs(job_ids: Sequence[int], count: int | None = None) -> str:
    """`job/1, job/2 and 3 others`; `count` is the total if it is larger than the list."""
    total = len(job_ids) if count is None else count
    shown = [f"job/{job_id}" for job_id in job_ids[:_NAMED]]
    left = total - len(shown)
    return f"{', '.join(shown)}{f' and {left} others' if left > 1 else ' and another' if left else ''}"
