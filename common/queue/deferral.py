"""Whether a job without a process is to begin later, and when.

A job that is deferred is in the queue, and waits for nothing but a time or a word: it takes no slot, no lock, no units
of resources, and no place in a limit.

Source: DESIGN section 16.
"""

import enum
from typing import Final

import attrs

from common.queue import terms as jobterms
from common.queue import tries
from common.queue.jobs import Job, JobOp
from common.queue.terms import terms_of
from common.queue.tries import next_try

_SOURCES: Final = (jobterms.SOURCE, tries.SOURCE)


class Cause(enum.Enum):
    """What a deferred job waits for."""

    HOLD = "hold"  # a user releases it
    BEGIN = "begin"  # the instant that its submitter named
    RETRY = "retry"  # the pause before the next try of its command is over


@attrs.frozen
class Deferral:
    """A job is to begin later."""

    cause: Cause
    # instant, in seconds since the epoch; None: nobody knows
    until: float | None


def deferral_of(job: Job) -> Deferral | None:
    """What defers the job, whatever the time is now; None: nothing. A hold comes first, then what ends last."""
    index = job.next_index
    if not job.ops or not (_has_cause(job.ops[0]) or (index and _has_cause(job.ops[index]))):
        return None
    terms = terms_of(job)
    if terms.hold is not None:
        return Deferral(Cause.HOLD, None)
    found = []
    if terms.begin_at is not None and job.start_at is None:
        found.append(Deferral(Cause.BEGIN, terms.begin_at))
    if (failed := next_try(job)) is not None:
        found.append(Deferral(Cause.RETRY, failed.next_at))
    return max(found, key=lambda each: each.until or 0.0, default=None)


def _has_cause(op: JobOp) -> bool:
    """Whether terms or tries are stated with the opcode; this runs for each job of a long queue."""
    trail = op.input.get("reason")
    if not isinstance(trail, list | tuple):
        return False
    return any(entry[0] in _SOURCES for entry in trail if isinstance(entry, list | tuple) and entry)
