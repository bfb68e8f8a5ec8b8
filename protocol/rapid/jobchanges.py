"""Change jobs that have no process: hold and release them, and give them other terms.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Mapping

import attrs

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
