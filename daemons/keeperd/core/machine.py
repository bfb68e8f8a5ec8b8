"""The machine of keeperd: an event and the time of it lead to the next state and to acts.

Theory. Whatever is told, the clock is first: when the deadline has passed, the mastership is lost, although etcd may
say that it is held. Then the event, then what has become due by the time alone. The time is that at which an event is
handled, so a keeper that was stopped for an hour sees the hour before it does anything.

Source: lease.md 7 and 8.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs

from common.lease.records import AcceptedRestore, Maintenance
from common.lease.times import LeaseTimes
from daemons.keeperd.core.campaigning import campaign, campaign_at, lost_campaign, won_campaign
from daemons.keeperd.core.events import (
    AcceptRestore,
    Act,
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
    LeaseRenewed,
    Look,
    Looked,
    MayEnd,
    NodesTold,
    OwnNodeSilent,
    RestoreAccepted,
    SetDeadline,
    StopAsked,
    StopDaemons,
    Tell,
)
from daemons.keeperd.core.fitness import bars, settled
from daemons.keeperd.core.keeper import EndCause, Keeper, Me, OwnMastership, Step, moved, remembering
from daemons.keeperd.core.mastership import (
    consider_request,
    daemons_ended,
    daemons_failed,
    daemons_ready,
    drained,
    fitness_changed,
    is_ours,
    kill,
    lease_lost,
    leave,
    lose,
    nodes_told,
    own_node_silent,
    reconsider,
    renewed,
    restart,
    stop,
)
from daemons.keeperd.core.states import HOLDING, IDLE, NodeMemory, State, View

# Whether etcd is what it was, and what is remembered of it.
#
# Theory. An etcd that is restored from a snapshot, or replaced, takes masterships back: an old fence would hold, an old
# queue would be replayed. So each node remembers the highest revision and epoch that it has seen, and of which cluster.
# A linear read of some releases may be old by itself; one older read is therefore only a suspicion, and a second one
# from another endpoint decides. The doubt lasts until an operator has accepted etcd as it is: its revision would grow
# past the remembered one in time. An acceptance says whose files count; all other nodes must be compared with them
# first.
#
# Source: lease.md 4 and 5.


# reads in a row that prove that etcd is older than remembered
PROOFS: Final = 2


def is_older(view: View, memory: NodeMemory) -> bool:
    """Whether etcd has less than what this node has seen of it, or is another one."""
    if not memory.cluster_id:
        return False
    return view.cluster_id != memory.cluster_id or view.revision < memory.revision or view.epoch < memory.epoch


def is_accepted(view: View, memory: NodeMemory) -> bool:
    """Whether an operator has taken etcd as it is, since this node knows it."""
    return bool(memory.cluster_id) and view.accepted is not None and view.accepted.epoch > memory.accepted


def after_acceptance(view: View, memory: NodeMemory, node: str) -> NodeMemory:
    """Return what is remembered once etcd was accepted; `is_accepted` holds."""
    accepted = view.accepted
    assert accepted is not None
    is_here = accepted.node == node
    return NodeMemory(
        cluster_id=view.cluster_id,
        revision=view.revision,
        epoch=view.epoch,
        own_epoch=accepted.epoch if is_here else memory.own_epoch,
        maintenance=newer(view.maintenance, memory.maintenance),
        lacking=0 if is_here else accepted.epoch,
        accepted=accepted.epoch,
        format=memory.format,
    )


def after_look(view: View, memory: NodeMemory, node: str) -> NodeMemory:
    """Return what is remembered after a read; `is_older` does not hold."""
    own, lacking = memory.own_epoch, memory.lacking
    last = view.last_master
    if last is not None and last.node == node and last.epoch > own:
        if memory.is_campaigning:
            # keeperd ended between the campaign and its memory
            own = last.epoch
        else:
            # this disk knows nothing of that mastership: it was replaced, or the name is used twice
            lacking = max(lacking, last.epoch)
    if last is None and not memory.cluster_id and view.accepted is not None and view.accepted.node == node:
        # a cluster that an operator let begin here with the files of this node, and nobody was its master yet
        own = view.accepted.epoch
    return attrs.evolve(
        memory,
        cluster_id=view.cluster_id,
        revision=max(memory.revision, view.revision),
        epoch=max(memory.epoch, view.epoch),
        own_epoch=own,
        # no transaction of an earlier campaign can win after another node has
        is_campaigning=memory.is_campaigning and view.epoch <= memory.epoch,
        maintenance=newer(view.maintenance, memory.maintenance),
        lacking=lacking,
        # a node that has just joined knows no time before the acceptance
        accepted=memory.accepted if memory.cluster_id or not view.accepted else view.accepted.epoch,
        format=view.master.format if view.master else memory.format,
    )


def newer(one: Maintenance | None, other: Maintenance | None) -> Maintenance | None:
    """Return the later word on maintenance; a key that has gone from etcd says nothing."""
    if one is None or other is None:
        return one or other
    return one if one.change >= other.change else other


def acceptance(keeper: Keeper) -> AcceptedRestore:
    """Return the acceptance by this node: its epoch is higher than all that is known."""
    seen = [view.epoch for view in (keeper.view, keeper.doubted) if view]
    return AcceptedRestore(epoch=1 + max(keeper.memory.epoch, keeper.nodes_epoch, *seen, 0), node=keeper.me.node)


# What a read of etcd means for this node.
#
# Source: lease.md 4 and 7.


def looked(keeper: Keeper, event: Looked, now: float) -> Step:
    view = event.view
    if is_accepted(view, keeper.memory) and keeper.state in IDLE:
        return _accepted(keeper, view, now)
    if keeper.memory.is_doubtful or is_older(view, keeper.memory):
        return _doubted(keeper, view, now)
    memory = after_look(view, keeper.memory, keeper.me.node)
    keeper, stored = remembering(attrs.evolve(keeper, suspicions=0, doubted=None), memory, now)
    if keeper.state is State.CAMPAIGN:
        # it has campaigned by an earlier view, which the outcome belongs to
        return keeper, stored
    keeper = attrs.evolve(keeper, view=view)
    keeper, acts = _held_on(keeper, view, now) if keeper.held else _followed(keeper, event, now)
    return keeper, (*stored, *acts)


def _held_on(keeper: Keeper, view: View, now: float) -> Step:
    held = keeper.held
    assert held is not None
    if keeper.state not in HOLDING:
        return keeper, ()
    if not is_ours(held, view):
        return stop(keeper, now, EndCause.LOST)
    if keeper.state is State.LEAVING:
        return reconsider(keeper, now)
    keeper, acts = consider_request(keeper, now)
    # another node may be able to take over from an unfit one since
    keeper, left = fitness_changed(keeper, now)
    return keeper, (*acts, *left)


def _followed(keeper: Keeper, event: Looked, now: float) -> Step:
    master = event.view.master
    if master is not None:
        # its own key may be seen once more: a look is quicker than the removal
        made_way_until = keeper.made_way_until if master.node == keeper.me.node else 0.0
        keeper = attrs.evolve(keeper, vacant_at=None, made_way_until=made_way_until)
    elif keeper.vacant_at is None:
        keeper = attrs.evolve(keeper, vacant_at=now, jitter=event.jitter)
        if keeper.in_maintenance:
            tell = Tell("keeperd.no_master_in_maintenance", is_error=True)
            return _settled_if_idle(keeper, now), (tell,)
    return _settled_if_idle(keeper, now), ()


def _settled_if_idle(keeper: Keeper, now: float) -> Keeper:
    return settled(keeper, now) if keeper.state in IDLE else attrs.evolve(keeper, vacant_at=None)


def _doubted(keeper: Keeper, view: View, now: float) -> Step:
    """One older read is a suspicion, the next one decides."""
    suspicions = keeper.suspicions + 1
    keeper = attrs.evolve(keeper, suspicions=suspicions, doubted=view)
    if keeper.memory.is_doubtful:
        return keeper, ()
    tell = Tell("keeperd.etcd_older", _difference(keeper, view), is_error=True)
    if suspicions < PROOFS:
        return keeper, (tell, Look(elsewhere=True))
    keeper, stored = remembering(keeper, attrs.evolve(keeper.memory, is_doubtful=True), now)
    if keeper.state in HOLDING:
        keeper, acts = stop(keeper, now, EndCause.DOUBT)
        return keeper, (tell, *acts, *stored)
    if keeper.state in IDLE:
        keeper = settled(keeper, now)
    return keeper, (tell, *stored)


def _difference(keeper: Keeper, view: View) -> dict[str, object]:
    memory = keeper.memory
    return {
        "cluster": view.cluster_id,
        "remembered_cluster": memory.cluster_id,
        "revision": view.revision,
        "remembered_revision": memory.revision,
        "epoch": view.epoch,
        "remembered_epoch": memory.epoch,
    }


def _accepted(keeper: Keeper, view: View, now: float) -> Step:
    memory = after_acceptance(view, keeper.memory, keeper.me.node)
    keeper, stored = remembering(keeper, memory, now)
    keeper = attrs.evolve(keeper, view=view, suspicions=0, doubted=None, vacant_at=None)
    tell = Tell("keeperd.etcd_accepted", {"epoch": memory.accepted, "is_here": memory.own_epoch == memory.accepted})
    # a further look, now that it is etcd as it is, finds whether there is a master
    return settled(keeper, now), (*stored, tell, Look())


def silent(keeper: Keeper, event: EtcdSilent, now: float) -> Step:
    """A master goes by its own clock, not by this."""
    if keeper.state in IDLE:
        return settled(attrs.evolve(keeper, view=None, vacant_at=None), now), ()
    if event.is_corrupt and keeper.state in HOLDING:
        return stop(keeper, now, EndCause.CORRUPT)
    return keeper, ()


def begin(me: Me, memory: NodeMemory, now: float) -> tuple[Keeper, Sequence[Act]]:
    """Return a keeper that has just been started: it ends what an earlier one may have left, and looks."""
    keeper = moved(Keeper(me, memory, now=now), State.STOPPING)
    keeper = attrs.evolve(keeper, cause=EndCause.START, kill_at=now + LeaseTimes.of(me.ttl_s).grace_s)
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
        case LeaseRenewed():
            return renewed(keeper, event)
        case LeaseLost():
            return lease_lost(keeper, event.epoch, now, EndCause.LOST)
        case FenceRefused():
            return lease_lost(keeper, event.epoch, now, EndCause.REFUSED)
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
        return keeper, (MayEnd(),)
    if keeper.state in HOLDING and (keeper.state is not State.LEAVING or keeper.is_draining):
        return leave(keeper, now, EndCause.ENDING)
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


def _pass_held(keeper: Keeper, held: OwnMastership, now: float) -> Step:
    if now >= held.stop_at:
        return stop(keeper, now, EndCause.DEADLINE)
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
    if after.cause is not EndCause.NONE and after.state not in (State.MASTER, State.CAMPAIGN, State.TAKING):
        fields["cause"] = after.cause.value
    epoch = after.held.epoch if after.held else after.memory.epoch
    return (Tell("keeperd.state", {**fields, "epoch": epoch}),)
