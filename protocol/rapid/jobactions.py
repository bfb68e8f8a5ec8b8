"""Change jobs: one, or all that a filter finds.

Many jobs are changed in two steps. `dry_run` lists what would be hit, with a ticket. The call with this ticket, or with
`expected`, is refused by 409 if other jobs would be hit by then.

Source: DESIGN section 15.
"""

from typing import Final

import attrs

from common.ids import JobId
from protocol.luxi.jobs import NewTerms

# maximum number of jobs that one call changes
BULK_MOST: Final = 10_000


@attrs.frozen
class Done:
    """A change was made. If it could not be made, the reply is a problem with status 409 and `"done": false`."""

    # sentence about it
    message: str
    done: bool = True


@attrs.frozen
class CancelWish:
    # whether a running job is ended, too
    kill: bool = False


@attrs.frozen
class PriorityWish:
    # -10 (high), 0 (normal) or 10 (low)
    priority: int


@attrs.frozen
class AutoArchiveWish:
    """Archive all jobs that ended some time ago."""

    # seconds since their end; negative: all ended ones
    age: int
    # seconds after which to stop looking
    timeout: int = 30


@attrs.frozen
class AutoArchived:
    archived: int
    # number of jobs that were not looked at for lack of time
    unchecked: int


@attrs.frozen(kw_only=True)
class ManyJobs:
    """The jobs to change: these ids, or all that the filter finds and that can be changed so."""

    ids: tuple[JobId, ...] | None = None
    # filter text ("user=ada & status=queued") or an expression of the query language
    filter: object = None
    # whether only to say which jobs would be hit
    dry_run: bool = False
    # number of jobs that the caller expects to be hit
    expected: int | None = None
    # ticket of a dry run: exactly the jobs listed there are hit
    ticket: str | None = None


@attrs.frozen(kw_only=True)
class CancelMany(ManyJobs):
    # whether running jobs are ended, too
    kill: bool = False


@attrs.frozen(kw_only=True)
class PrioritizeMany(ManyJobs):
    # -10 (high), 0 (normal) or 10 (low)
    priority: int


@attrs.frozen(kw_only=True)
class ArchiveMany(ManyJobs):
    pass


@attrs.frozen
class ChangedJob:
    """What became of one job."""

    id: JobId
    done: bool
    message: str


@attrs.frozen
class ManyChanged:
    """What was hit, or would be."""

    dry_run: bool
    # number of jobs that are, or would be, hit
    count: int
    ids: tuple[JobId, ...]
    # stands for the call with exactly these jobs
    ticket: str
    # one for each job, in order; empty after a dry run
    results: tuple[ChangedJob, ...] = ()


# Change jobs that have no process: hold and release them, and give them other terms.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class HoldWish:
    # shown to users who ask why the job waits
    why: str = ""


@attrs.frozen(kw_only=True)
class HoldMany(ManyJobs):
    why: str = ""


@attrs.frozen(kw_only=True)
class ReleaseMany(ManyJobs):
    pass


@attrs.frozen(kw_only=True)
class ModifyMany(ManyJobs):
    """Give many jobs other terms."""

    change: NewTerms


# Submit jobs again that have ended.
#
# Source: DESIGN sections 15 and 16.


@attrs.frozen
class RerunWish:
    # whether the opcodes before the one that failed are left out
    from_failed: bool = False


@attrs.frozen(kw_only=True)
class RerunMany(ManyJobs):
    # whether those that succeeded, or have not ended, are left out
    failed_only: bool = False
    # whether those that depend on them, directly or through others, run again too, at most 1000; of the archive
    # those up to 10000 ids after the last one
    with_dependents: bool = False
    # whether the opcodes before the one that failed are left out
    from_failed: bool = False


@attrs.frozen
class RerunLook:
    """A job that would be made."""

    # the old job
    of: JobId
    # number of opcodes of the old job that are left out
    left_out: int
    # its opcodes, each in a word
    summary: tuple[str, ...]
    # old jobs, on the copies of which it would depend
    depends_on: tuple[JobId, ...] = ()


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
    # the jobs that would be made; only after a dry run
    would_make: tuple[RerunLook, ...] = ()
