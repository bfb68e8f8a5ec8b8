"""The machine of keeperd: an event and the time of it lead to the next state and to acts.

Source: lease.md 7 and 8.
"""

from collections.abc import Sequence

from daemons.keeperd.core.keeper import Cause, Keeper, Me, moved
from daemons.keeperd.core.words import Act, Event, Look, Memory, SetDeadline, State, StopDaemons


def begin(me: Me, memory: Memory, now: float) -> tuple[Keeper, Sequence[Act]]:
    """Return a keeper that has just been started: it ends what an earlier one may have left, and looks."""
    keeper = moved(Keeper(me, memory, now=now), State.STOPPING, Cause.START)
    return keeper, (SetDeadline(0.0), StopDaemons(), Look())


def next_due(keeper: Keeper) -> float | None:
    """Return when `Due` is to be told; None: only after another event."""
    raise NotImplementedError


def step(keeper: Keeper, event: Event, now: float) -> tuple[Keeper, Sequence[Act]]:
    """Return the keeper after an event, and what its shell is to do, in order.

    Args: now: when the event is handled, by `boottime`; never earlier than at the step before.
    """
    raise NotImplementedError
