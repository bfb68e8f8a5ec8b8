"""Which of the locks that a running job holds make a queued one weigh: named for whoever asks why.

Source: DESIGN section 6, "Explain"; luxid.md 5.11.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from common.locks import BGL, Lock, LockLevel, LockMode
from daemons.luxid.core.choice.needs import Needs
from daemons.luxid.core.choice.weights import LEVELS, Taking

_UNNAMED_SHARED: Final = frozenset({Taking.SHARED_UNKNOWN, Taking.SHARED_ALL})
_UNNAMED_EXCLUSIVE: Final = frozenset({Taking.EXCLUSIVE_UNKNOWN, Taking.EXCLUSIVE_ALL})
_SHARED: Final = _UNNAMED_SHARED | {Taking.SHARED_NAMED}
_EXCLUSIVE: Final = _UNNAMED_EXCLUSIVE | {Taking.EXCLUSIVE_NAMED}


def clashing_locks(needs: Needs, held: Mapping[Lock, LockMode], place: int | None) -> Iterator[tuple[Lock, LockMode]]:
    """The locks held that could keep the needs out, in lock order.

    Args:
        place: of a level in `LEVELS`; None: the BGL.
    """
    for lock, mode in sorted(held.items()):
        if place is None:
            if lock.level is LockLevel.CLUSTER and (lock == BGL or lock.is_group):
                yield lock, mode
        elif lock.level is LEVELS[place] and _clashes(needs, place, lock, mode):
            yield lock, mode


def _clashes(needs: Needs, place: int, lock: Lock, mode: LockMode) -> bool:
    takings = frozenset(needs.shape.takings[place])
    name = (place, lock.name)
    if takings & (_EXCLUSIVE if lock.is_group else _UNNAMED_EXCLUSIVE) or name in needs.exclusive:
        return True
    if mode is LockMode.SHARED:
        return False
    return bool(takings & (_SHARED if lock.is_group else _UNNAMED_SHARED)) or name in needs.shared
