"""What a job waited for, and when: the history of its waits.

Theory. A *span* is a period in which one cause held a job. If several causes hold it at once, the first one
counts, in the order of selection: that it is to begin later, other jobs, a filter rule, a full limit, units, its turn.
So the spans of a job do not overlap, and their sum is the time that it waited.
A wait for locks is written without an end when it begins to last, and again with the same beginning when it is
over. A reader takes the later line, and closes a span that stayed open at the point where the job went on.
Spans shorter than `SHORTEST_S` are neither kept nor shown.

Source: DESIGN section 6, "Explain".
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from common.shapes import OwnForm

SHORTEST_S: Final = 0.1
# maximum of jobs or locks that one span names; of the rest only the count is kept
NAMED: Final = 10
# seconds; a clock set back by less does not make a span look like another job's
_SLACK_S: Final = 60.0


class WaitKind(enum.Enum):
    """The cause that held a job; the value is its name on the wire."""

    # a user holds it
    HOLD = "hold"
    # it is to begin at an instant that its submitter named
    BEGIN = "begin"
    # the pause before the next try of its command
    RETRY = "retry"
    DEPENDENCY = "dependency"
    FILTER = "filter"
    LIMIT = "limit"
    # as many jobs of its batch run as may at once
    BATCH = "batch"
    # too few units of a resource were free, or they were kept for another job
    RESOURCE = "resource"
    # no free slot, or other jobs are started first
    TURN = "turn"
    # luxid starts no jobs at the moment
    OBSTACLE = "obstacle"
    # its process is being started
    START = "start"
    LOCKS = "locks"
    # the job was queued before luxid was restarted
    UNKNOWN = "unknown"


# causes of spans that a new luxid lets begin before its own start
_REACHING_BACK: Final = (WaitKind.UNKNOWN, WaitKind.HOLD, WaitKind.BEGIN, WaitKind.RETRY)


@attrs.frozen
class Cause:
    """A cause that holds a job, and the jobs and names involved."""

    kind: WaitKind
    # ids of the jobs that it depends on, or that held its locks; the first `NAMED`
    job_ids: tuple[int, ...] = ()
    # locks; the UUID of a rule; the name of a limit: the text of a bucket, or the UUID of its rule; the id of a batch;
    # the name of a resource; the user who holds the job
    names: tuple[str, ...] = ()
    # owners of locks that are not jobs
    owners: tuple[str, ...] = ()
    # count of job ids left out
    more: int = 0
    # number of jobs that a limit, or a batch, lets run at once; number of units that the job wants
    limit: int | None = None
    # whether a limit is a bucket's; False: it is a rule's
    is_bucket: bool = False
    # first reason of a rule; the words of a hold; why the last try failed
    reason: str = ""

    def to_wire(self) -> dict[str, object]:
        """The wire form without empty values."""
        rest = attrs.asdict(self, filter=lambda field, value: field.name != "kind" and value not in ((), "", 0, None))
        return {"kind": self.kind.value, **rest}


@attrs.frozen
class Span(OwnForm):
    """The period, in seconds since the epoch, in which a cause held a job."""

    cause: Cause
    since: float
    # end; None: it still lasts
    until: float | None

    @property
    def is_short(self) -> bool:
        return self.until is not None and self.until - self.since < SHORTEST_S

    def to_wire(self) -> dict[str, object]:
        return {**self.cause.to_wire(), "since": self.since, "until": self.until}

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Raises: KeyError, TypeError, ValueError: the value is not a span."""
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
    """Return the history of a job from the written spans, in the order of the file, and luxid's spans in memory.

    Args:
        received_at: seconds; spans before it belong to an earlier job with the same id, from before the queue was
            set up anew, and are left out.
        ended_at: None: the job has not ended, and its last span may be open.
    Returns: spans ordered by their beginning; only the last one may lack an end.
    """
    found: dict[tuple[WaitKind, float], Span] = {}
    known_until = 0.0
    for span in (*written, *current):
        if span.since < received_at - _SLACK_S:
            continue
        if span.cause.kind in _REACHING_BACK:
            # each luxid only knows that it was not running before its start, and since when a job was to begin later
            span = attrs.evolve(span, since=max(span.since, known_until))
        found[span.cause.kind, span.since] = span
        known_until = max(known_until, span.until or 0.0)
    spans = sorted(found.values(), key=lambda span: span.since)
    ends = [*(span.since for span in spans[1:]), ended_at]
    closed = (
        attrs.evolve(span, until=end) if span.until is None else span for span, end in zip(spans, ends, strict=False)
    )
    return tuple(span for span in closed if not span.is_short)
