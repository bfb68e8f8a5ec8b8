"""Why a job does not run, in words: one line for each reason that luxid gives.

Source: DESIGN section 6, "Explain"; `protocol.luxi.explain`.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from common.locks import Lock
from common.queue.explanation import (
    BeingWritten,
    Ending,
    Faded,
    HeldByRule,
    Holding,
    InLine,
    LetsPass,
    LevelWeight,
    LimitFull,
    LockChain,
    NoFreeSlot,
    NotKnown,
    Obstacle,
    Reason,
    Unreadable,
    WaitsForJob,
    WaitsForLock,
)
from common.queue.filteractions import Action, ActionKind
from common.queue.jobs import FINAL, JobState
from common.shapes import OtherKind
from common.words.text import json_text
from common.words.times import duration

# processes of a job that is being killed
PIDS_NAMED: Final = 10
_ENDS: Final = {JobState.SUCCESS: "succeed", JobState.ERROR: "fail", JobState.CANCELED: "be canceled"}


def in_words(reason: Reason) -> str:
    """A line; of a kind that is not known here its values as JSON. Durations are those up to now."""
    match reason:
        case WaitsForJob():
            return _dependency(reason)
        case HeldByRule():
            return _rule(reason)
        case LimitFull():
            return _limit(reason)
        case NoFreeSlot():
            return f"no place is free, {reason.used} of {reason.slots} are taken: {_jobs(reason.running)}"
        case InLine():
            return _order(reason)
        case Faded():
            return _aged(reason)
        case LevelWeight():
            return _weight(reason)
        case BeingWritten():
            return f"luxid is busy with it ({reason.phase}), that takes a moment"
        case Obstacle():
            return f"no job is started: {reason.what}"
        case Unreadable():
            return f"the file of job/{reason.job_id} cannot be read just now, and is tried again: {reason.why}"
        case WaitsForLock() | LetsPass() | LockChain() | Ending() | NotKnown():
            return _process_in_words(reason)
        case OtherKind():
            return json_text({"kind": reason.kind, **reason.values})
    assert_never(reason)


def _process_in_words(reason: WaitsForLock | LetsPass | LockChain | Ending | NotKnown) -> str:
    """A reason of a job that has a process."""
    match reason:
        case WaitsForLock():
            return _lock(reason)
        case LetsPass():
            return _turn(reason)
        case LockChain():
            return _chain(reason)
        case Ending():
            return _ending(reason)
        case NotKnown():
            return f"it is not known {reason.what}: {reason.why}"
    assert_never(reason)


def worth_telling(reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons without what only tells how a place in the line comes about, if others are not before it."""
    is_behind = any(isinstance(reason, InLine) and reason.position > 1 for reason in reasons)
    return [reason for reason in reasons if is_behind or not isinstance(reason, Faded | LevelWeight)]


def _dependency(reason: WaitsForJob) -> str:
    lasting = f" for {_elapsed(reason.since)}" if reason.since is not None else ""
    state = f", which is {reason.state.value}{lasting}," if reason.state else ""
    is_any = not 0 < len(reason.wanted) < len(FINAL)
    end = "end" if is_any else " or ".join(_ENDS[each] for each in reason.wanted)
    return f"waits for job/{reason.job_id}{state} to {end}"


def _rule(reason: HeldByRule) -> str:
    words = next((entry.reason for entry in reason.reason_trail if entry.source == "gnt:user"), "")
    return f"{_effect(reason.action)} filter rule {reason.uuid}{f': {words}' if words else ''}"


def _effect(action: Action) -> str:
    if action.limit is not None:
        beside = action.limit - 1
        return f"may run beside at most {beside} others of" if beside else "must run alone among those of"
    return "is rejected by" if action.kind is ActionKind.REJECT else "is paused by"


def _limit(reason: LimitFull) -> str:
    name = f"rate limit '{reason.name}'" if reason.is_bucket else f"limit of filter rule {reason.name}"
    return f"the {name} is full, {reason.running_count} of {reason.limit} run: {_jobs(reason.members)}"


def _order(reason: InLine) -> str:
    if reason.position == 1:
        return "is first in line"
    return f"is number {reason.position} in line, behind {_jobs(reason.ahead, reason.position - 1)}"


def _aged(reason: Faded) -> str:
    faded = f", {reason.aged:g} of it left after {reason.ticks} ticks" if reason.ticks else ""
    return f"its locks weigh {reason.static:g} in the line{faded}"


def _weight(reason: LevelWeight) -> str:
    beside = f"beside those of {_jobs(reason.job_ids)}" if reason.job_ids else "as they stop all others"
    holdings = _holdings(reason.held)
    return f"of that {reason.weight:g} for {reason.level} locks, {beside}{f': {holdings}' if holdings else ''}"


def _lock(reason: WaitsForLock) -> str:
    holders = _holdings(reason.holders, reason.lock, reason.counting_since)
    return f"{_has_waited(reason)} for {reason.lock} ({reason.mode.value}), held by {holders}"


def _turn(reason: LetsPass) -> str:
    was = "was" if len(reason.owners) == 1 else "were"
    return f"{_has_waited(reason)} and lets {', '.join(reason.owners)} go first, which {was} passed too often"


def _chain(reason: LockChain) -> str:
    parts = list(_links(reason))
    parts += [f"{' waits for '.join((*ring, ring[0]))}: none of them can go on, cancel one" for ring in reason.rings]
    if reason.roots:
        parts.append(f"the chain ends at {', '.join(reason.roots)}")
    return "; ".join(parts)


def _links(reason: LockChain) -> Iterator[str]:
    """The waits of owners that are no jobs; those of jobs are told below them."""
    for wait in reason.waits:
        if wait.job_id is None:
            holders = _holdings(wait.holders, wait.lock, reason.counting_since)
            yield f"{wait.owner} waits for {wait.lock} ({wait.mode.value}), held by {holders}"


def _has_waited(reason: WaitsForLock | LetsPass) -> str:
    return f"has waited {_elapsed(reason.waiting_since, reason.counting_since)}"


def _holdings(held: Sequence[Holding], asked: Lock | None = None, counting: float | None = None) -> str:
    """`job/4 (exclusive, for 3m12s), job/5 (node/[lockset] shared)`; the lock only if it is another than asked for."""
    return ", ".join(_holding(each, asked, counting) for each in held)


def _holding(held: Holding, asked: Lock | None, counting: float | None) -> str:
    lock = "" if held.lock == asked else f"{held.lock} "
    lasting = f", for {_elapsed(held.since, counting)}" if held.since is not None or counting is not None else ""
    return f"{held.owner} ({lock}{held.mode.value}{lasting})"


def _elapsed(since: float | None, counting: float | None = None) -> str:
    """Args: counting: what is since before this moment has no known beginning."""
    if since is None:
        return f"more than {duration(time.time() - (counting or time.time()))}"
    return duration(time.time() - since)


def _ending(reason: Ending) -> str:
    pids = ", ".join(map(str, reason.pids[:PIDS_NAMED]))
    more = f" and {len(reason.pids) - PIDS_NAMED} more" if len(reason.pids) > PIDS_NAMED else ""
    return f"is being killed and keeps its locks until all of it has ended: pid {pids}{more}"


# jobs that a line names
_NAMED: Final = 10


def _jobs(job_ids: Sequence[int], count: int | None = None) -> str:
    """`job/1, job/2 and 3 others`; `count` if there are more than are named here."""
    total = len(job_ids) if count is None else count
    shown = [f"job/{job_id}" for job_id in job_ids[:_NAMED]]
    left = total - len(shown)
    return f"{', '.join(shown)}{f' and {left} others' if left > 1 else ' and another' if left else ''}"
