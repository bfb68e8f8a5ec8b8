"""The admission of a job: what filters and limits say of its start.

Source: luxid.md 5.5, 6.2.
"""

from typing import Final
from weakref import WeakValueDictionary

import attrs

from daemons.luxid.core.choice.ratelimit import Limit
from daemons.luxid.core.choice.userbounds import User
from daemons.luxid.core.resources.wants import Want


@attrs.frozen(cache_hash=True)
class Admission:
    """Whether filters pause a job, its limits, the units it wants and its user; equal in all of an admission class."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()
    wants: tuple[Want, ...] = ()
    # whose bounds it is subject to; None: nobody's
    user: User | None = None
    # limits and wants: what keeps the job from starting while it is full, or short
    closers: tuple[Limit, ...] = attrs.field(init=False, eq=False, repr=False)

    @closers.default
    def _closers(self) -> tuple[Limit, ...]:
        return (*self.limits, *self.wants) if self.wants else self.limits


# admissions are shared while a job has them: every job has one, and they are compared often
_OPEN: Final = Admission()
_PAUSED: Final = Admission(is_paused=True)
_Key = tuple[bool, tuple[Limit, ...], tuple[Want, ...], User | None]
_LIMITED: Final[WeakValueDictionary[_Key, Admission]] = WeakValueDictionary()


def admission_of(
    limits: tuple[Limit, ...], wants: tuple[Want, ...] = (), user: User | None = None, *, is_paused: bool
) -> Admission:
    """The admission of a job, shared with all jobs that have an equal one."""
    if limits or wants or user is not None:
        key = (is_paused, limits, wants, user)
        return _LIMITED.get(key) or _LIMITED.setdefault(key, Admission(*key))
    return _PAUSED if is_paused else _OPEN
