"""What a read of etcd means for this node.

Source: lease.md 4 and 7.
"""

import attrs

from daemons.keeperd.core.acts import Look, Tell
from daemons.keeperd.core.doubting import PROOFS, after_acceptance, after_look, is_accepted, is_older
from daemons.keeperd.core.events import EtcdSilent, Looked
from daemons.keeperd.core.keeper import Cause, Keeper, Step, remembering
from daemons.keeperd.core.leaving import stop
from daemons.keeperd.core.mastership import fitness_changed, is_ours
from daemons.keeperd.core.settling import settled
from daemons.keeperd.core.standings import HOLDING, IDLE
from daemons.keeperd.core.states import State, View
from daemons.keeperd.core.wishes import consider_wish, reconsider


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
        return stop(keeper, now, Cause.LOST)
    if keeper.state is State.LEAVING:
        return reconsider(keeper, now)
    keeper, acts = consider_wish(keeper, now)
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
        keeper, acts = stop(keeper, now, Cause.DOUBT)
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
        return stop(keeper, now, Cause.CORRUPT)
    return keeper, ()
