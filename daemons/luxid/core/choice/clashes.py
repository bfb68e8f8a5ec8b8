"""The locks of a running job that add to the weight of a queued one, for explanations.

Source: DESIGN section 6, "Explain"; luxid.md 5.11.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from common.locks import BGL, Lock, LockMode, meets
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.weights import LEVELS, Taking

# Takings of locks that are all of a level, or not known yet: each lock of the level may be among them.
_UNNAMED: Final = {
    LockMode.SHARED: frozenset({Taking.SHARED_UNKNOWN, Taking.SHARED_ALL}),
    LockMode.EXCLUSIVE: frozenset({Taking.EXCLUSIVE_UNKNOWN, Taking.EXCLUSIVE_ALL}),
}
_NAMED: Final = {LockMode.SHARED: Taking.SHARED_NAMED, LockMode.EXCLUSIVE: Taking.EXCLUSIVE_NAMED}


def clashing_locks(
    needs: Needs, held: Mapping[Lock, LockMode], level_index: int | None
) -> Iterator[tuple[Lock, LockMode]]:
    """The held locks that a job with these needs might have to wait for, in lock order.

    Args:
        level_index: of a level in `LEVELS`; None: the BGL.
    """
    for lock, mode in sorted(held.items()):
        if level_index is None:
            if meets(BGL, lock):
                yield lock, mode
        elif lock.level is LEVELS[level_index] and _clashes(needs, level_index, lock, mode):
            yield lock, mode


def _clashes(needs: Needs, level_index: int, lock: Lock, mode: LockMode) -> bool:
    """As `common.locks.conflicts`, with needs that may have no names yet."""
    return any(mode.excludes(wanted) and _may_meet(needs, level_index, lock, wanted) for wanted in LockMode)


def _may_meet(needs: Needs, level_index: int, lock: Lock, wanted: LockMode) -> bool:
    """Whether a lock that is needed in this mode may be this one, its group or a member of it."""
    takings = needs.shape.takings[level_index]
    if _UNNAMED[wanted].intersection(takings) or (lock.is_group and _NAMED[wanted] in takings):
        return True
    return (level_index, lock.name) in (needs.shared if wanted is LockMode.SHARED else needs.exclusive)
