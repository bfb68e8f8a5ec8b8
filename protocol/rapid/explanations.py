"""Why jobs do not run, what they waited for, and what they left running.

Source: DESIGN section 6, "Explain".
"""

import attrs

from common.ids import JobId
from common.queue.explanation import Reason, Span
from protocol.luxi.history import EndedJob, PastSum


@attrs.frozen
class JobIds:
    """Jobs by their ids, at most 1000."""

    ids: tuple[JobId, ...]


@attrs.frozen
class Explanation:
    """The reasons why a job does not run; none: it runs."""

    id: JobId
    # null: the job has ended, or there is none
    reasons: tuple[Reason, ...] | None


@attrs.frozen
class Explanations:
    jobs: tuple[Explanation, ...]


@attrs.frozen
class Waits:
    """The waits of a job so far, in order."""

    id: JobId
    # null: there is no such job
    spans: tuple[Span, ...] | None


@attrs.frozen
class WaitsOfJobs:
    jobs: tuple[Waits, ...]


@attrs.frozen
class LeftProcesses:
    """The processes that an ended job left running under its locks."""

    id: JobId
    pids: tuple[int, ...]


@attrs.frozen
class LeftProcessesOfJobs:
    jobs: tuple[LeftProcesses, ...]


# What ran, under /3.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class History:
    """A part of the ended jobs."""

    jobs: tuple[EndedJob, ...]
    # number of jobs that the choice has
    total: int
    # number of ended jobs that are not in the index yet, for a moment after a start
    unread: int = 0


@attrs.frozen
class HistorySummary:
    # the largest group first
    groups: tuple[PastSum, ...]


# Remove what is kept no longer.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class PruneWish:
    # whether only to tell what would be removed
    dry_run: bool


@attrs.frozen
class Removed:
    """What was removed, or would be; numbers of files, or of jobs."""

    archived: int
    jobs: int
    outputs: int
    output_bytes: int
    waits: int
    keys: int
    # rows of the history
    rows: int
    # instants of the oldest and the newest end among the removed jobs, in seconds since 1970; null: none
    oldest: float | None
    newest: float | None
    # number of jobs that are due still, because the time of the call was over: send it again
    left: int
