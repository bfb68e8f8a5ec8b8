"""Submit jobs again that have ended.

Source: DESIGN sections 15 and 16.
"""

import attrs

from common.ids import JobId
from protocol.rapid.jobactions import ManyJobs


@attrs.frozen(kw_only=True)
class RerunMany(ManyJobs):
    # whether those that succeeded, or have not ended, are left out
    failed_only: bool = False


@attrs.frozen
class Rerun:
    """A new job with the opcodes of an old one; or why there is none."""

    # the old job
    of: JobId
    id: JobId | None = None
    refused: str | None = None


@attrs.frozen
class ManyRerun:
    """What runs again, or would."""

    dry_run: bool
    count: int
    # the old jobs
    ids: tuple[JobId, ...]
    # stands for the call with exactly these jobs
    ticket: str
    # one for each job, in order; empty after a dry run
    results: tuple[Rerun, ...] = ()
