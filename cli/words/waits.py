"""What a job waited for so far, in words: one line.

Source: DESIGN section 6, "Explain"; `protocol.luxi.waits.ReadJobWaits`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cli.words.times import duration

# as luxid tells it
WaitSpan = Mapping[str, Any]
# causes that the line tells; the others are summed up
_TOLD: Final = 6


def waited_words(spans: Sequence[WaitSpan], now: float) -> str | None:
    """`12.3s in all: 8.1s for job 17 to end, 4.2s for its turn`; None: it did not wait.

    Causes come as they first held the job, equal ones as a sum; of many the longest are told.

    Args:
        now: seconds since the epoch; a job that still waits has waited until then.
    """
    if not spans:
        return None
    sums: dict[str, float] = {}
    for span in spans:
        words = _words(span)
        sums[words] = sums.get(words, 0.0) + max(0.0, (now if span["until"] is None else span["until"]) - span["since"])
    is_waiting = spans[-1]["until"] is None
    told = ", ".join(_told(sums))
    total = f"{duration(sum(sums.values()))} {'so far' if is_waiting else 'in all'}: " if len(sums) > 1 else ""
    return f"{total}{told}{_still(spans[-1], len(sums)) if is_waiting else ''}"


def _told(sums: Mapping[str, float]) -> list[str]:
    longest = sorted(sums, key=lambda words: -sums[words])[:_TOLD] if len(sums) > _TOLD + 1 else list(sums)
    told = [f"{duration(lasted)} {words}" for words, lasted in sums.items() if words in longest]
    if left := [lasted for words, lasted in sums.items() if words not in longest]:
        told.append(f"{duration(sum(left))} for {len(left)} other reasons")
    return told


def _still(span: WaitSpan, count: int) -> str:
    return " (it still waits)" if count == 1 else f" (it still waits {_words(span)})"


def _words(span: WaitSpan) -> str:
    write = _WRITERS.get(span["kind"])
    return write(span) if write is not None else f"for {span['kind']}"


def _dependency(span: WaitSpan) -> str:
    return f"for {_jobs(span)} to end"


def _filter(span: WaitSpan) -> str:
    reason = span.get("reason", "")
    return f"under filter rule {_name(span)}{f' ({reason})' if reason else ''}"


def _limit(span: WaitSpan) -> str:
    name = f"rate limit '{_name(span)}'" if span.get("is_bucket") else f"the limit of filter rule {_name(span)}"
    return f"for one of the {span.get('limit', '')} places in {name}" if span.get("limit") != 1 else f"for {name}"


def _locks(span: WaitSpan) -> str:
    names = span.get("names", ())
    locks = f"{'the lock' if len(names) == 1 else 'the locks'} {', '.join(names)}"
    others = ", ".join(span.get("owners", ()))
    holders = " and ".join(each for each in (_jobs(span), others) if each)
    return f"for {locks}{f' held by {holders}' if holders else ''}"


def _name(span: WaitSpan) -> str:
    return str(next(iter(span.get("names", ())), "unknown"))


def _jobs(span: WaitSpan) -> str:
    """`job 1`, `jobs 1, 2 and 3 others`; empty: none."""
    job_ids, more = span.get("job_ids", ()), span.get("more", 0)
    if not job_ids:
        return ""
    left = f" and {more} others" if more > 1 else " and another" if more else ""
    return f"{'job' if len(job_ids) == 1 and not more else 'jobs'} {', '.join(map(str, job_ids))}{left}"


_WRITERS: Final[Mapping[str, Callable[[WaitSpan], str]]] = {
    "dependency": _dependency,
    "filter": _filter,
    "limit": _limit,
    "turn": lambda _: "for its turn",
    "obstacle": lambda _: "as no job could be started",
    "start": lambda _: "for its process to be made",
    "locks": _locks,
    "unknown": lambda _: "before luxid was restarted",
}
