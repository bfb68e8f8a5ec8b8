"""The admission of a job: what filters and limits say of its start.

Source: luxid.md 5.5, 6.2.
"""

from typing import Final
from weakref import WeakValueDictionary

import attrs

from daemons.luxid.core.choice.ratelimit import Limit
from daemons.luxid.core.resources.wants import Want


@attrs.frozen(cache_hash=True)
class Admission:
    """Whether filters pause a job, its limits and the units it wants; equal for all jobs of an admission class."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()
    wants: tuple[Want, ...] = ()
    # limits and wants: what keeps the job from starting while it is full, or short
    closers: tuple[Limit, ...] = attrs.field(init=False, eq=False, repr=False)

    @closers.default
    def _closers(self) -> tuple[Limit, ...]:
        return (*self.limits, *self.wants) if self.wants else self.limits


# admissions are shared while a job has them: every job has one, and they are compared often
_OPEN: Final = Admission()
_PAUSED: Final = Admission(is_paused=True)
_LIMITED: Final[WeakValueDictionary[tuple[bool, tuple[Limit, ...], tuple[Want, ...]], Admission]] = (
    WeakValueDictionary()
)


def admission_of(limits: tuple[Limit, ...], wants: tuple[Want, ...] = (), *, is_paused: bool) -> Admission:
    """The admission of a job, shared with all jobs that have an equal one."""
    if limits or wants:
        key = (is_paused, limits, wants)
        return _LIMITED.get(key) or _LIMITED.setdefault(key, Admission(*key))
    return _PAUSED if is_paused else _OPEN
