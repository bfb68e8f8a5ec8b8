"""How a mastership ends: asked for, forced, or too late.

Theory. The lease is given back only when nothing lives that ran under it: whoever gives it back before makes a second
master. Where that cannot be proven in time, the lease runs out, and the deadline, the watchdog, and the fence of each
write keep what still lives from acting.

    leaving    renews on; the daemons end in their time; then the lease is given back
    stopping   renews no more; SIGTERM, then SIGKILL
    lost       the deadline has passed and something may live: SIGKILL again and again, and the watchdog bites

Source: lease.md 6, 7 and 8.
"""

from typing import Final

import attrs

from common.lease.records import OperatorRequest
from daemons.keeperd.core.events import (
    Act,
    DaemonsEnded,
    Drain,
    Drained,
    DrainNoMore,
    DropLease,
    KillDaemons,
    Look,
    MayEnd,
    Release,
    SetDeadline,
    StopDaemons,
    Tell,
)
from daemons.keeperd.core.fitness import settled
from daemons.keeperd.core.keeper import EndCause, Keeper, OwnMastership, Step, moved
from daemons.keeperd.core.states import State

# seconds that the daemons get when keeperd is ended or hands over
STOP_LIMIT_S: Final = 20.0
# seconds between two SIGKILLs for what does not end
KILL_AGAIN_S: Final = 3.0
# seconds in which another node must take over before the old master campaigns itself
TAKER_LIMIT_S: Final = 10.0
# causes by which the daemons may use the time until the deadline
_IN_TIME: Final = (EndCause.DEADLINE, EndCause.CORRUPT)


def make_way(keeper: Keeper, wish: OperatorRequest) -> Step:
    """Begin a switch-over: the daemons run on until nothing is left to do."""
    keeper = attrs.evolve(moved(keeper, State.LEAVING), cause=EndCause.SWITCHOVER, leaving=wish, is_draining=True)
    return keeper, (Drain(wish.node, wish.kill),)


def stay(keeper: Keeper) -> Step:
    """Take a switch-over back; the daemons have not been asked to end."""
    keeper = attrs.evolve(moved(keeper, State.MASTER), cause=EndCause.NONE, leaving=None, is_draining=False)
    return keeper, (DrainNoMore(),)


def drained(keeper: Keeper, event: Drained, now: float) -> Step:
    if keeper.state is not State.LEAVING or not keeper.is_draining or not _is_of(keeper.held, event.epoch):
        return keeper, ()
    return _end_daemons(keeper, now)


def leave(keeper: Keeper, now: float, cause: EndCause) -> Step:
    """Give the mastership up without waiting for jobs."""
    held = keeper.held
    assert held is not None
    if not held.is_started:
        return give_up(attrs.evolve(keeper, cause=cause), now)
    keeper = attrs.evolve(moved(keeper, State.LEAVING), cause=cause)
    return _end_daemons(keeper, now)


def _end_daemons(keeper: Keeper, now: float) -> Step:
    return attrs.evolve(keeper, is_draining=False, kill_at=now + STOP_LIMIT_S), (StopDaemons(),)


def stop(keeper: Keeper, now: float, cause: EndCause) -> Step:
    """Renew no more, and end what runs. By most causes another node may be the master already: nothing acts on."""
    held = keeper.held
    assert held is not None
    kill_at = min(now + held.times.grace_s, held.renewed_at + held.times.kill_s)
    keeper = attrs.evolve(moved(keeper, State.STOPPING), cause=cause, is_draining=False, kill_at=kill_at)
    at_once: tuple[Act, ...] = () if cause in _IN_TIME else (SetDeadline(0.0),)
    return keeper, (*at_once, DropLease(), StopDaemons())


def lose(keeper: Keeper, now: float) -> Step:
    """The deadline has passed."""
    held = keeper.held
    assert held is not None
    keeper = attrs.evolve(moved(keeper, State.LOST), is_draining=False, kill_at=now + KILL_AGAIN_S)
    tell = Tell("keeperd.lost", {"epoch": held.epoch, "late_s": round(now - held.deadline, 3)}, is_error=True)
    return keeper, (SetDeadline(0.0), DropLease(), KillDaemons(), tell)


def kill(keeper: Keeper, now: float) -> Step:
    """SIGKILL is due, perhaps again."""
    tell = () if keeper.state is not State.LOST else (Tell("keeperd.not_dead", is_error=True),)
    return attrs.evolve(keeper, kill_at=now + KILL_AGAIN_S), (KillDaemons(), *tell)


def give_up(keeper: Keeper, now: float) -> Step:
    """End a mastership under which nothing was started."""
    return _over(keeper, now, (SetDeadline(0.0), Release(clean=True)))


def daemons_ended(keeper: Keeper, event: DaemonsEnded, now: float) -> Step:
    """Nothing lives that ran under the mastership: it is over."""
    if event.epoch != keeper.started_epoch or keeper.kill_at is None:
        return keeper, ()
    held = keeper.held
    if held is None:
        return _over(keeper, now, ())
    is_clean = keeper.state is not State.LOST and keeper.cause is not EndCause.DOUBT
    if keeper.cause is EndCause.SWITCHOVER:
        keeper = attrs.evolve(keeper, made_way_until=now + TAKER_LIMIT_S)
    if keeper.cause is EndCause.FAILING:
        until = now + held.times.ttl_s
        keeper = attrs.evolve(keeper, not_before=until, pause_reason="the daemons of the master failed here")
    return _over(keeper, now, (SetDeadline(0.0), Release(clean=is_clean)))


def _over(keeper: Keeper, now: float, acts: tuple[Act, ...]) -> Step:
    keeper = attrs.evolve(keeper, held=None, heard=None, leaving=None, is_draining=False, kill_at=None, vacant_at=None)
    then: Act = MayEnd() if keeper.is_ending else Look()
    return settled(keeper, now), (*acts, then)


def _is_of(held: OwnMastership | None, epoch: int) -> bool:
    return held is not None and held.epoch == epoch
