"""Change single jobs, and archive them.

Source: luxid.md section 2.
"""

import attrs

from common.ids import JobId
from common.shapes import Row
from protocol.messages import Request


@attrs.frozen
class Done(Row):
    """Whether a change was made, and a sentence about it."""

    is_done: bool
    message: str


@attrs.frozen
class CancelJob(Request[Done]):
    """Cancel a job."""

    METHOD = "CancelJob"
    job_id: JobId
    kill: bool = False


@attrs.frozen
class ChangeJobPriority(Request[Done]):
    """Give a job's unfinished opcodes another priority."""

    METHOD = "ChangeJobPriority"
    job_id: JobId
    priority: int


@attrs.frozen
class PickupJob(Request[bool]):
    """Always refused: it was internal to Ganeti's queue, and a client may still call it."""

    METHOD = "PickupJob"
    job_id: JobId


@attrs.frozen
class ArchiveJob(Request[bool]):
    """Archive a final job; false if it does not exist or is not final."""

    METHOD = "ArchiveJob"
    job_id: JobId


@attrs.frozen
class Archived(Row):
    """The number of jobs archived, and of jobs not examined for lack of time."""

    archived_count: int
    unchecked_count: int


@attrs.frozen
class AutoArchiveJobs(Request[Archived]):
    """Archive the jobs that ended more than `age` seconds ago."""

    METHOD = "AutoArchiveJobs"
    # seconds; negative: all final jobs
    age: int
    # seconds after which to stop looking
    timeout: int
