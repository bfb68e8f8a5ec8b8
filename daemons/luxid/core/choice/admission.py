"""The admission of a job: what filters and limits say of its start.

Source: luxid.md 5.5, 6.2.
"""

from typing import Final
from weakref import WeakValueDictionary

import attrs

from daemons.luxid.core.choice.ratelimit import Limit


@attrs.frozen(cache_hash=True)
class Admission:
    """Whether filters pause a job, and the limits it counts against; equal for all jobs of an admission class."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()


# admissions are shared while a job has them: every job has one, and they are compared often
_OPEN: Final = Admission()
_PAUSED: Final = Admission(is_paused=True)
_LIMITED: Final[WeakValueDictionary[tuple[bool, tuple[Limit, ...]], Admission]] = WeakValueDictionary()


def admission_of(limits: tuple[Limit, ...], *, is_paused: bool) -> Admission:
    """The admission of a job, shared with all jobs that have an equal one."""
    if limits:
        key = (is_paused, limits)
        return _LIMITED.get(key) or _LIMITED.setdefault(key, Admission(*key))
    return _PAUSED if is_paused else _OPEN
