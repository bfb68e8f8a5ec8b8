"""Why jobs do not run, and what they waited for."""

import attrs

from common.ids import JobId
from common.queue.explanation import Reason, Span
from protocol.messages import Request

# Ask why jobs do not run. Ours.


@attrs.frozen
class ExplainJobs(Request[tuple[tuple[Reason, ...] | None, ...]]):
    """The reasons why jobs do not run, for each id, in order; null for a job that is not live."""

    METHOD = "ExplainJobs"
    job_ids: tuple[JobId, ...]


# The waits of jobs. Ours.


@attrs.frozen
class ReadJobWaits(Request[tuple[tuple[Span, ...] | None, ...]]):
    """What jobs waited for so far, archived ones included: for each id, in order, its spans; null: no such job."""

    METHOD = "ReadJobWaits"
    job_ids: tuple[JobId, ...]


# Processes that jobs left running. Ours.


@attrs.frozen
class ReadLeftProcesses(Request[tuple[tuple[int, ...], ...]]):
    """The processes that ended jobs left running under their locks: for each id, in order, the pids."""

    METHOD = "ReadLeftProcesses"
    job_ids: tuple[JobId, ...]
