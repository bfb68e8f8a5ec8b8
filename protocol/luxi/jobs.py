"""Changing single jobs, and setting them aside.

Source: luxid.md section 2.
"""

from typing import Any

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class CancelJob(Request[tuple[Any, ...]]):
    """Cancel a job; answers `[done, message]`."""

    METHOD = "CancelJob"
    job_id: JobId
    kill: bool = False


@attrs.frozen
class ChangeJobPriority(Request[tuple[Any, ...]]):
    """Give a job's unfinished opcodes another priority; answers `[done, message]`."""

    METHOD = "ChangeJobPriority"
    job_id: JobId
    priority: int


@attrs.frozen
class PickupJob(Request[bool]):
    """Always refused: it was the queue's own, and some client may still know it."""

    METHOD = "PickupJob"
    job_id: JobId


@attrs.frozen
class ArchiveJob(Request[bool]):
    """Set a final job aside; false if there is none or it is not final."""

    METHOD = "ArchiveJob"
    job_id: JobId


@attrs.frozen
class AutoArchiveJobs(Request[tuple[int, int]]):
    """Set aside the jobs that ended more than `age` seconds ago; answers `[archived, not looked at]`."""

    METHOD = "AutoArchiveJobs"
    # seconds; negative: all final jobs
    age: int
    # seconds after which to stop looking
    timeout: int
