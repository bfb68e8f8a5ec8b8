"""Optimistic locking: locks that a unit has chosen by what it read before it held any.

Theory. Such a unit reads the configuration, declares its locks and waits for them; meanwhile others may change what it
has read. So with the locks held it declares again, by the configuration as it is now. What it holds protects what it
declares if it covers that; then nobody can change it any more, and the unit goes on. If not, it frees everything,
since locks may only be added in lock order, and begins again with the new declaration. Under changes that never end
this would not either; so it is tried a limited number of times.

Source: DESIGN section 7.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from common.errors import PrerequisiteError
from common.locks import Lock, LockLevel, LockMode, LockRequest
from common.opcodes.base import OpCode
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

# levels on which units request locks
UNIT_LEVELS: Final = tuple(level for level in LockLevel if level not in (LockLevel.CLUSTER, LockLevel.CONFIG))
# times that a unit gets its locks, and finds that it needs others
MOST_ROUNDS: Final = 5


def declared_again(unit: LogicalUnit[OpCode], context: UnitContext) -> tuple[LockRequest, ...]:
    """What the unit declares by the configuration as it is now, below the BGL.

    Raises: as `LogicalUnit.expand_names`: what the opcode names may be gone.
    """
    unit.expand_names(context)
    return tuple(request for level in UNIT_LEVELS for request in unit.declare_locks(level, context))


def covers(held: Mapping[Lock, LockMode], requests: Iterable[LockRequest]) -> bool:
    """Whether the held locks are at least those that are requested; the lock of a group covers all its members."""
    return all(_is_held(held, request) for request in requests)


def too_many_rounds() -> PrerequisiteError:
    return PrerequisiteError(
        f"the configuration has changed {MOST_ROUNDS} times while the job waited for its locks, so that it needed "
        "others each time; submit it again when fewer changes are made",
        "temp_insufficient_resources",
    )


def _is_held(held: Mapping[Lock, LockMode], request: LockRequest) -> bool:
    places = (request.lock, request.lock.group)
    return request.mode is None or any(
        mode.covers(request.mode) for place in places if place is not None and (mode := held.get(place)) is not None
    )
