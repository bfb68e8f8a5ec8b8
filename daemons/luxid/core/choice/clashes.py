"""Which of the locks that a running job holds make a queued one weigh: named for whoever asks why.

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


def clashing_locks(needs: Needs, held: Mapping[Lock, LockMode], place: int | None) -> Iterator[tuple[Lock, LockMode]]:
    """The locks held that could keep the needs out, in lock order.

    Args:
        place: of a level in `LEVELS`; None: the BGL.
    """
    for lock, mode in sorted(held.items()):
        if place is None:
            if meets(BGL, lock):
                yield lock, mode
        elif lock.level is LEVELS[place] and _clashes(needs, place, lock, mode):
            yield lock, mode


def _clashes(needs: Needs, place: int, lock: Lock, mode: LockMode) -> bool:
    """As `common.locks.conflicts`, with needs that may have no names yet."""
    return any(mode.excludes(wanted) and _may_meet(needs, place, lock, wanted) for wanted in LockMode)


def _may_meet(needs: Needs, place: int, lock: Lock, wanted: LockMode) -> bool:
    """Whether a lock that is needed in this mode may be this one, its group or a member of it."""
    takings = needs.shape.takings[place]
    if _UNNAMED[wanted].intersection(takings) or (lock.is_group and _NAMED[wanted] in takings):
        return True
    return (place, lock.name) in (needs.shared if wanted is LockMode.SHARED else needs.exclusive)
