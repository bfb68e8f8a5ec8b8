"""An ended job as the history keeps it.

Theory. All of it is read from the job's file, but for one instant: when the last job that it depended on had ended, and
it was not on hold any more, which the histories of waits tell. A job is *eligible* from the latest of its receipt, its
begin and that instant. It *waits* from then until its first opcode has its locks and is executed, and it *runs* while
an opcode is executed, over all tries; pauses between tries, and the waits for locks of later opcodes, are neither.

What others may not see of a job is kept twice: as it is, and as everybody may see it (`daemons.luxid.core.rights`).

Source: DESIGN section 16; everyday.md section g.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from common.ids import JobId
from common.queue.explanation import Span, WaitKind
from common.queue.jobs import Job, JobState, Timestamp, to_seconds
from common.queue.reasons import Try, batch_of, owner_of, submitter, tries_of
from common.queue.terms import changed_at, terms_of
from daemons.luxid.core.query.jobs import FIELDS, JobView, exit_code
from daemons.luxid.core.rights import public_job

# Where an ended job lies, as the history notes it.


class ColumnIndex(enum.IntEnum):
    """The value is the index's."""

    LIVE = 0
    ARCHIVED = 1
    # its file was removed; the row is left
    REMOVED = 2


# what keeps a job that is not eligible
_KEEPING: Final = (WaitKind.DEPENDENCY, WaitKind.HOLD, WaitKind.BEGIN)
# characters that are kept of a text
LONGEST: Final = 1000
# owner of the jobs of the daemons' user; no user has this number
OWN_UID: Final = -2


@attrs.frozen
class JobTexts:
    """How jobs are told in words."""

    # opcode, as in the job's file -> `TEST_DELAY(1.0)`
    summary: Callable[[Mapping[str, object]], str]
    # job that failed or was canceled -> why, in a line
    reason: Callable[[Job], str]


@attrs.frozen
class PastRow:
    """An ended job; instants and durations in seconds."""

    job_id: JobId
    state: JobState
    # name that its submitter gave it; empty: none
    name: str
    summary: str
    public_summary: str
    user: str
    # owner, who sees all of it
    uid: int
    labels: Mapping[str, str]
    received_at: float | None
    eligible_at: float | None
    # instant at which its first opcode was executed for the first time
    start_at: float | None
    end_at: float | None
    wait_s: float | None
    run_s: float | None
    tries: int
    exit_code: int | None
    why: str
    public_why: str
    node: str
    batch: str


def past_row(job: Job, texts: JobTexts, freed_at: float | None = None) -> PastRow:
    """The row of a job that has ended.

    Args:
        freed_at: when the last job that it depended on had ended; None: it depended on none, or that is not known.
    """
    terms, owner = terms_of(job), owner_of(job)
    view = JobView(job)
    tries = [each for op in job.ops for each in tries_of(op)]
    received_at, begun = _seconds(job.received_at), _first_begun(job, tries)
    eligible_at = max((at for at in (received_at, terms.begin_at, freed_at) if at is not None), default=None)
    summary, has_failed = _summary(job, texts), job.state is not JobState.SUCCESS
    public = public_job(job) if has_failed or _has_arguments(job) else job
    return PastRow(
        job.job_id,
        job.state,
        terms.name,
        summary,
        summary if public is job else _summary(public, texts),
        submitter(job),
        OWN_UID if owner is None else owner.uid,
        terms.labels,
        received_at,
        eligible_at,
        begun,
        _seconds(job.end_at),
        # a clock that is set back makes no negative times
        None if begun is None or eligible_at is None else max(0.0, begun - eligible_at),
        _run_s(job, tries),
        1 + len(tries),
        exit_code(job),
        texts.reason(job)[:LONGEST] if has_failed else "",
        texts.reason(public)[:LONGEST] if has_failed else "",
        str(FIELDS["node"](view)),
        batch.batch_id if (batch := batch_of(job)) is not None else "",
    )


def was_kept(job: Job) -> bool:
    """Whether the job depended on others before it began, or may have been on hold."""
    return (bool(job.ops) and bool(job.ops[0].input.get("depends"))) or changed_at(job) is not None


def freed_at(job: Job, spans: Iterable[Span]) -> float | None:
    """When the last job on which it depended had ended, and it was not on hold, by the history of its waits; None: that
    is not known. What kept it after it had begun, from a later opcode or a further try, does not count."""
    received_at = _seconds(job.received_at) or 0.0
    begun = _first_begun(job, [each for op in job.ops for each in tries_of(op)])
    ends = [
        span.until
        for span in spans
        # an earlier job may have had the same id
        if span.cause.kind in _KEEPING and span.until is not None and span.until >= received_at
        if begun is None or span.since < begun
    ]
    return max(ends, default=None)


def _summary(job: Job, texts: JobTexts) -> str:
    return ",".join(texts.summary(op.input) for op in job.ops)[:LONGEST]


def _has_arguments(job: Job) -> bool:
    """Whether others see less of its summary."""
    return any("argv" in op.input for op in job.ops)


def _first_begun(job: Job, tries: Iterable[Try]) -> float | None:
    found = [each.start_at for each in tries] + [at for op in job.ops if (at := _seconds(op.exec_at)) is not None]
    return min(found, default=None)


def _run_s(job: Job, tries: Iterable[Try]) -> float | None:
    spans = [(each.start_at, each.end_at) for each in tries]
    spans += [
        (begun, ended)
        for op in job.ops
        if (begun := _seconds(op.exec_at)) is not None and (ended := _seconds(op.end_at)) is not None
    ]
    return sum(max(0.0, ended - begun) for begun, ended in spans) if spans else None


def _seconds(stamp: Timestamp | None) -> float | None:
    return None if stamp is None else to_seconds(stamp)
