"""Why jobs do not run, what they waited for, and what they left running.

Source: DESIGN section 6, "Explain".
"""

import attrs

from common.ids import JobId
from common.queue.explanation import Reason
from common.queue.waithistory import Span


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
