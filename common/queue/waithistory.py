"""What a job waited for, from when to when: the history of its waits.

Theory. A *span* is a stretch of time in which one cause held a job. Of several that hold it at once the first one
counts, in the order of selection: other jobs, a filter rule, a full limit, its turn. So the spans of a job
lie one behind the other, and their sum is the time that it waited.

A wait for locks is written without an end as soon as it lasts, and once more with the same beginning when it is
over: who reads takes the later one, and ends what nobody could end any more where the job went on.

What is shorter than `SHORTEST_S` is nobody's business: it is neither kept nor shown.

Source: DESIGN section 6, "Explain".
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from common.shapes import OwnForm

SHORTEST_S: Final = 0.1
# jobs or locks that one span names; of the others only the number is kept
NAMED: Final = 10
# a clock that was set back a little makes no span that of another job
_SLACK_S: Final = 60.0


class WaitKind(enum.Enum):
    """What held a job; the value is its name on the wire."""

    DEPENDENCY = "dependency"
    FILTER = "filter"
    LIMIT = "limit"
    # free slots, and others that are started before
    TURN = "turn"
    # luxid starts nobody at all for the moment
    OBSTACLE = "obstacle"
    # a process is being made for it
    START = "start"
    LOCKS = "locks"
    # it was queued; luxid was restarted since
    UNKNOWN = "unknown"


@attrs.frozen
class Cause:
    """What holds a job, and who is to blame."""

    kind: WaitKind
    # jobs that it depends on, or that held its locks; the first `NAMED`
    job_ids: tuple[int, ...] = ()
    # locks; the UUID of a rule; the name of a limit: the text of a bucket, or the UUID of its rule
    names: tuple[str, ...] = ()
    # owners of locks that are no jobs
    owners: tuple[str, ...] = ()
    # job ids that are left out
    more: int = 0
    # how many jobs a limit lets run at once
    limit: int | None = None
    # False: a limit is that of a rule
    is_bucket: bool = False
    # the first reason of a rule
    reason: str = ""

    def to_wire(self) -> dict[str, object]:
        """Without what is empty."""
        rest = attrs.asdict(self, filter=lambda field, value: field.name != "kind" and value not in ((), "", 0, None))
        return {"kind": self.kind.value, **rest}


@attrs.frozen
class Span(OwnForm):
    """From when to when, in seconds since the epoch, a cause held a job."""

    cause: Cause
    since: float
    # None: it still does
    until: float | None

    @property
    def is_short(self) -> bool:
        return self.until is not None and self.until - self.since < SHORTEST_S

    def to_wire(self) -> dict[str, object]:
        return {**self.cause.to_wire(), "since": self.since, "until": self.until}

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: KeyError, TypeError, ValueError: it is no span of ours."""
        if not isinstance(value, Mapping):
            raise TypeError(f"expected a span, got {value!r:.60}")
        cause = Cause(
            WaitKind(value["kind"]),
            tuple(map(int, value.get("job_ids", ()))),
            tuple(map(str, value.get("names", ()))),
            tuple(map(str, value.get("owners", ()))),
            int(value.get("more", 0)),
            value.get("limit"),
            bool(value.get("is_bucket", False)),
            str(value.get("reason", "")),
        )
        until = value["until"]
        return cls(cause, float(value["since"]), None if until is None else float(until))


def assemble(
    written: Sequence[Span], current: Sequence[Span], received_at: float, ended_at: float | None
) -> tuple[Span, ...]:
    """The history of a job: what was written, in the order of the file, and then what luxid has in memory.

    Args:
        received_at: seconds; spans of an earlier job with the same id, from before the queue was set up anew, are
            left out.
        ended_at: None: the job has not ended, and its last span may be open.
    Returns: by their beginning; only the last one may have no end.
    """
    found: dict[tuple[WaitKind, float], Span] = {}
    known_until = 0.0
    for span in (*written, *current):
        if span.since < received_at - _SLACK_S:
            continue
        if span.cause.kind is WaitKind.UNKNOWN:
            # each luxid only knows that it was not there from the beginning on
            span = attrs.evolve(span, since=max(span.since, known_until))
        found[span.cause.kind, span.since] = span
        known_until = max(known_until, span.until or 0.0)
    spans = sorted(found.values(), key=lambda span: span.since)
    ends = [*(span.since for span in spans[1:]), ended_at]
    closed = (
        attrs.evolve(span, until=end) if span.until is None else span for span, end in zip(spans, ends, strict=False)
    )
    return tuple(span for span in closed if not span.is_short)
