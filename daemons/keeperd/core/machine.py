"""The machine of keeperd: an event and the time of it lead to the next state and to acts.

Theory. Whatever is told, the clock is first: when the deadline has passed, the mastership is lost, although etcd may
say that it is held. Then the event, then what has become due by the time alone. The time is that at which an event is
handled, so a keeper that was stopped for an hour sees the hour before it does anything.

Source: lease.md 7 and 8.
"""

from collections.abc import Sequence
from typing import assert_never

import attrs

from common.lease.times import Times
from daemons.keeperd.core.acts import AcceptRestore, Act, End, Look, SetDeadline, StopDaemons, Tell
from daemons.keeperd.core.campaigning import campaign, campaign_at, lost_campaign, won_campaign
from daemons.keeperd.core.doubting import acceptance
from daemons.keeperd.core.events import (
    CampaignLost,
    CampaignWon,
    DaemonsEnded,
    DaemonsFailed,
    DaemonsReady,
    Drained,
    Due,
    EtcdSilent,
    Event,
    FenceRefused,
    FitnessChanged,
    LeaseLost,
    Looked,
    NodesTold,
    OwnNodeSilent,
    Renewed,
    RestoreAccepted,
    StopAsked,
)
from daemons.keeperd.core.fitness import bars
from daemons.keeperd.core.keeper import Cause, Held, Keeper, Me, Step, moved
from daemons.keeperd.core.leaving import daemons_ended, drained, kill, leave, lose, stop
from daemons.keeperd.core.looking import looked, silent
from daemons.keeperd.core.mastership import (
    daemons_failed,
    daemons_ready,
    fitness_changed,
    lease_lost,
    nodes_told,
    own_node_silent,
    renewed,
    restart,
)
from daemons.keeperd.core.settling import settled
from daemons.keeperd.core.standings import HOLDING, IDLE
from daemons.keeperd.core.states import Memory, State


def begin(me: Me, memory: Memory, now: float) -> tuple[Keeper, Sequence[Act]]:
    """Return a keeper that has just been started: it ends what an earlier one may have left, and looks."""
    keeper = moved(Keeper(me, memory, now=now), State.STOPPING)
    keeper = attrs.evolve(keeper, cause=Cause.START, kill_at=now + Times.of(me.ttl_s).grace_s)
    return keeper, (SetDeadline(0.0), StopDaemons(), Look())


def step(keeper: Keeper, event: Event, now: float) -> tuple[Keeper, Sequence[Act]]:
    """Return the keeper after an event, and what its shell is to do, in order.

    Args: now: when the event is handled, by `boottime`; never earlier than at the step before.
    """
    before, due = keeper, next_due(keeper)
    keeper, expired = _expire(keeper, now)
    keeper, acts = _handle(attrs.evolve(keeper, now=now), event, now)
    keeper, timed = _pass(keeper, now)
    return keeper, (*_stall(keeper, due, now), *expired, *acts, *timed, *_told(before, keeper))


def next_due(keeper: Keeper) -> float | None:
    """Return when `Due` is to be told; None: only another event changes anything."""
    times = [*_idle_times(keeper), *_held_times(keeper)]
    if keeper.kill_at is not None:
        times.append(keeper.kill_at)
    return min(times, default=None)


def _idle_times(keeper: Keeper) -> list[float]:
    if keeper.state not in IDLE:
        return []
    times = [bar.until for bar in bars(keeper, keeper.now) if bar.until is not None]
    at = campaign_at(keeper)
    return times if at is None else [*times, at]


def _held_times(keeper: Keeper) -> list[float]:
    held, state = keeper.held, keeper.state
    if held is None or state is State.LOST:
        return []
    times = [held.deadline]
    if state in HOLDING:
        times.append(held.stop_at)
    if state is State.MASTER:
        times.append(held.shaky_at)
    if held.restart_at is not None and _may_restart(keeper):
        times.append(held.restart_at)
    return times


def _may_restart(keeper: Keeper) -> bool:
    return keeper.state in (State.TAKING, State.MASTER, State.SHAKY)


def _expire(keeper: Keeper, now: float) -> Step:
    held = keeper.held
    if held is None or keeper.state is State.LOST or now < held.deadline:
        return keeper, ()
    return lose(keeper, now)


def _handle(keeper: Keeper, event: Event, now: float) -> Step:
    match event:
        case Looked():
            return looked(keeper, event, now)
        case EtcdSilent():
            return silent(keeper, event, now)
        case CampaignWon():
            return won_campaign(keeper, event, now)
        case CampaignLost():
            return lost_campaign(keeper, event, now)
        case Renewed():
            return renewed(keeper, event)
        case LeaseLost():
            return lease_lost(keeper, event.epoch, now, Cause.LOST)
        case FenceRefused():
            return lease_lost(keeper, event.epoch, now, Cause.REFUSED)
        case NodesTold():
            return nodes_told(keeper, event, now)
        case OwnNodeSilent():
            return own_node_silent(keeper, event, now)
        case DaemonsReady():
            return daemons_ready(keeper, event)
        case DaemonsFailed():
            return daemons_failed(keeper, event, now)
        case DaemonsEnded():
            return daemons_ended(keeper, event, now)
        case Drained():
            return drained(keeper, event, now)
        case FitnessChanged():
            return _fitness(attrs.evolve(keeper, reasons=event.reasons), now)
        case RestoreAccepted():
            return _accept(keeper)
        case StopAsked():
            return _end(attrs.evolve(keeper, is_ending=True), now)
        case Due():
            return keeper, ()
        case _:
            assert_never(event)


def _fitness(keeper: Keeper, now: float) -> Step:
    return (settled(keeper, now), ()) if keeper.state in IDLE else fitness_changed(keeper, now)


def _accept(keeper: Keeper) -> Step:
    return (keeper, (AcceptRestore(acceptance(keeper)),)) if keeper.state is State.DOUBT else (keeper, ())


def _end(keeper: Keeper, now: float) -> Step:
    if keeper.state in IDLE or keeper.state is State.CAMPAIGN:
        return keeper, (End(),)
    if keeper.state in HOLDING and (keeper.state is not State.LEAVING or keeper.is_draining):
        return leave(keeper, now, Cause.ENDING)
    return keeper, ()


def _pass(keeper: Keeper, now: float) -> Step:
    """Do all that the time alone brings; after a long stop several things are due."""
    done: tuple[Act, ...] = ()
    while True:
        after, acts = _pass_once(keeper, now)
        if after == keeper:
            return keeper, done
        keeper, done = after, (*done, *acts)


def _pass_once(keeper: Keeper, now: float) -> Step:
    held = keeper.held
    if held is not None and keeper.state in HOLDING:
        return _pass_held(keeper, held, now)
    if keeper.kill_at is not None and now >= keeper.kill_at:
        return kill(keeper, now)
    if keeper.state not in IDLE:
        return keeper, ()
    keeper = settled(keeper, now)
    at = campaign_at(keeper)
    return campaign(keeper, now) if at is not None and now >= at else (keeper, ())


def _pass_held(keeper: Keeper, held: Held, now: float) -> Step:
    if now >= held.stop_at:
        return stop(keeper, now, Cause.DEADLINE)
    if keeper.state is State.MASTER and now >= held.shaky_at:
        keeper = moved(keeper, State.SHAKY)
    elif keeper.state is State.SHAKY and now < held.shaky_at:
        keeper = moved(keeper, State.MASTER)
    if keeper.kill_at is not None and now >= keeper.kill_at:
        return kill(keeper, now)
    if held.restart_at is not None and now >= held.restart_at and _may_restart(keeper):
        return restart(keeper)
    return keeper, ()


def _stall(keeper: Keeper, due: float | None, now: float) -> tuple[Act, ...]:
    """Tell that this process was stopped, or starved, beyond a keepalive."""
    held = keeper.held
    if due is None or held is None or now < due + held.times.keepalive_s:
        return ()
    return (Tell("keeperd.stall", {"stall_s": round(now - due, 3)}, is_error=True),)


def _told(before: Keeper, after: Keeper) -> tuple[Act, ...]:
    if before.state is after.state:
        return ()
    fields: dict[str, object] = {"was": before.state.value, "state": after.state.value}
    if after.cause is not Cause.NONE and after.state not in (State.MASTER, State.CAMPAIGN, State.TAKING):
        fields["cause"] = after.cause.value
    epoch = after.held.epoch if after.held else after.memory.epoch
    return (Tell("keeperd.state", {**fields, "epoch": epoch}),)
