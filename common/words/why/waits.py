"""The waits of a job so far, in words: one line.

Source: DESIGN section 6, "Explain"; `protocol.luxi.why.waits.ReadJobWaits`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from common.queue.waithistory import Cause, Span, WaitKind
from common.words.times import duration

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
        words = _words(span.cause)
        sums[words] = sums.get(words, 0.0) + max(0.0, (now if span.until is None else span.until) - span.since)
    present = _words(spans[-1].cause) if spans[-1].until is None else None
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


def _words(cause: Cause) -> str:
    match cause.kind:
        case WaitKind.HOLD:
            return f"held{''.join(f' by {name}' for name in cause.names)}{_because(cause)}"
        case WaitKind.BEGIN:
            return "for its time to begin"
        case WaitKind.RETRY:
            return f"before its next try{_because(cause)}"
        case WaitKind.DEPENDENCY:
            return f"for {_jobs(cause)} to end"
        case WaitKind.FILTER:
            return f"under filter rule {_name(cause)}{_because(cause)}"
        case WaitKind.LIMIT:
            return _limit(cause)
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


def _limit(cause: Cause) -> str:
    name = f"rate limit '{_name(cause)}'" if cause.is_bucket else f"the limit of filter rule {_name(cause)}"
    return f"for one of the {cause.limit or ''} places in {name}" if cause.limit != 1 else f"for {name}"


def _locks(cause: Cause) -> str:
    locks = f"{'the lock' if len(cause.names) == 1 else 'the locks'} {', '.join(cause.names)}"
    holders = " and ".join(each for each in (_jobs(cause), ", ".join(cause.owners)) if each)
    return f"for {locks}{f' held by {holders}' if holders else ''}"


def _name(cause: Cause) -> str:
    return next(iter(cause.names), "unknown")


def _jobs(cause: Cause) -> str:
    """`job 1`, `jobs 1, 2 and 3 others`; empty: none."""
    if not cause.job_ids:
        return ""
    left = f" and {cause.more} others" if cause.more > 1 else " and another" if cause.more else ""
    noun = "job" if len(cause.job_ids) == 1 and not cause.more else "jobs"
    return f"{noun} {', '.join(map(str, cause.job_ids))}{left}"
