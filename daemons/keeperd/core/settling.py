"""What a keeper is that holds no mastership.

Source: lease.md 7.
"""

import attrs

from daemons.keeperd.core.fitness import bars
from daemons.keeperd.core.keeper import Keeper, moved
from daemons.keeperd.core.states import State


def settled(keeper: Keeper, now: float) -> Keeper:
    """Return the keeper in the state that follows from what it knows: in doubt, waiting, barred, or following."""
    state = _state(keeper, now)
    vacant_at = keeper.vacant_at if state in (State.FOLLOW, State.BARRED) else None
    return attrs.evolve(moved(keeper, state), vacant_at=vacant_at)


def _state(keeper: Keeper, now: float) -> State:
    if keeper.memory.is_doubtful:
        return State.DOUBT
    if keeper.view is None:
        return State.WAIT
    return State.BARRED if bars(keeper, now) else State.FOLLOW
