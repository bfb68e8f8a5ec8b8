"""Why a job is to begin later, or lacks resources, in words.

Source: DESIGN section 16; `common.queue.explanation`.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from common.queue.explanation import BeginsLater, LacksUnits, OnHold, TriesAgain, YieldsUnits
from common.words.times import clock, duration
from common.words.unitcounts import units_text

# reasons that come from the job's terms and tries
OfTerms = OnHold | BeginsLater | TriesAgain | LacksUnits | YieldsUnits
_JOBS_NAMED: Final = 5


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
        return f"wants {reason.wanted} of '{reason.resource}', which nobody has set; set it with: {how}"
    wanted, free, total = (units_text(each, reason.unit) for each in (reason.wanted, reason.free, reason.total))
    if reason.wanted > reason.total:
        return f"wants {wanted} of '{reason.resource}', and there are only {total}"
    kept = "; they are kept for it as they become free" if reason.is_next else ""
    members = _jobs(reason.members)
    return f"wants {wanted} of '{reason.resource}', {free} of {total} are free{members}{kept}"


def _jobs(job_ids: Sequence[int]) -> str:
    if not job_ids:
        return ""
    named = ", ".join(f"job/{job_id}" for job_id in job_ids[:_JOBS_NAMED])
    left = len(job_ids) - _JOBS_NAMED
    others = f" and {left} others" if left > 1 else " and another" if left == 1 else ""
    return f"; {named}{others} {'uses' if len(job_ids) == 1 else 'use'} it"
