"""Change jobs that have no process: hold and release them, and give them other terms.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Mapping

import attrs

from common.ids import JobId
from protocol.luxi.jobs import AfterJob
from protocol.rapid.jobactions import ManyJobs


@attrs.frozen
class HoldWish:
    # shown to users who ask why the job waits
    why: str = ""


@attrs.frozen(kw_only=True)
class TermsWish:
    """What to change; what is left out stays."""

    # empty: no name any more
    name: str | None = None
    # labels to set, by key, and keys to remove
    labels: Mapping[str, str] = attrs.Factory(dict)
    without_labels: tuple[str, ...] = ()
    # seconds since 1970; 0: at once
    begin_at: float | None = None
    # -10 (high), 0 (normal) or 10 (low)
    priority: int | None = None
    # units to take, by the key of the resource, and keys of which none are taken any more
    uses: Mapping[str, int] = attrs.Factory(dict)
    without_uses: tuple[str, ...] = ()
    # seconds after which the command of the job is ended; 0: never
    timeout: float | None = None
    # number of further tries of its command
    retries: int | None = None
    # jobs of its batch that may run at once; 0: any number
    at_most: int | None = None
    # jobs to wait for, which came before it, and ids of jobs that are waited for no more
    after: tuple[AfterJob, ...] = ()
    without_after: tuple[JobId, ...] = ()


@attrs.frozen(kw_only=True)
class HoldMany(ManyJobs):
    why: str = ""


@attrs.frozen(kw_only=True)
class ReleaseMany(ManyJobs):
    pass


@attrs.frozen(kw_only=True)
class ModifyMany(ManyJobs):
    """Give many jobs other terms."""

    change: TermsWish
