"""Whether this node may become the master, and why not.

Theory. A node may only if its files, with what is in etcd laid over them, are those of the cluster: it was the last
master itself, or a later master has compared all its files and keeps in etcd what it lacks; and it has not been marked
stale. In a new cluster nobody has anything yet. An operator may overrule that and take the loss; nobody may overrule
what makes a mastership impossible or unsafe. A node that was away when etcd was restored has nothing to doubt it by: it
goes by the doubt of the others.

Source: lease.md 6 and 7.
"""

from typing import Final

import attrs

from common.lease.records import FORMAT, LastMaster, Role, WantedKind
from common.lease.times import ghost_s
from daemons.keeperd.core.keeper import Keeper, moved
from daemons.keeperd.core.states import State, View


@attrs.frozen
class MastershipBar:
    """A reason why this node may not become the master. In words for users."""

    reason: str
    # whether `gantry cluster takeover` goes over it
    is_overruled: bool = False
    # when it ends by itself; None: not by time
    until: float | None = None
    # whether it ends when the master has compared this node's files, and sent what they lack
    lacks_copies: bool = False


_NOT_COMPARED: Final = "no later master has compared its files since it was the master"
_NEVER_COMPARED: Final = "no master has compared its files yet"
_STALE: Final = "stale: it is new or was away too long, and has not caught up"
NO_FAILOVER: Final = MastershipBar("priority 0: it never becomes the master by itself", is_overruled=True)


def bars(keeper: Keeper, now: float) -> tuple[MastershipBar, ...]:
    """Return all that stands against a campaign; an operator's request is taken into account."""
    view = keeper.view
    if view is None:
        return ()
    found = (*_impossible(keeper, view), *_unwise(keeper, view, now))
    request = view.wanted
    if request is None or request.node != keeper.me.node:
        return found
    if request.kind is WantedKind.TAKEOVER:
        return tuple(bar for bar in found if not bar.is_overruled)
    return tuple(bar for bar in found if bar is not NO_FAILOVER)


def only_lacks_copies(keeper: Keeper, now: float) -> bool:
    """Whether this node may become the master, at least when an operator names it, once it has all copies."""
    found = [bar for bar in bars(keeper, now) if bar is not NO_FAILOVER]
    return bool(found) and all(bar.lacks_copies for bar in found)


def _impossible(keeper: Keeper, view: View) -> list[MastershipBar]:
    found = [MastershipBar(reason) for reason in keeper.reasons]
    if view.has_twin:
        found.append(MastershipBar("another machine has the same name; stop keeperd on one of them"))
    if keeper.memory.format > FORMAT:
        found.append(MastershipBar(f"the last master has a newer release: format {keeper.memory.format}, not {FORMAT}"))
    if view.is_full:
        found.append(MastershipBar("etcd is full: it grants no lease; make room"))
    return found


def _unwise(keeper: Keeper, view: View, now: float) -> list[MastershipBar]:
    found: list[MastershipBar] = []
    if keeper.me.priority == 0:
        found.append(NO_FAILOVER)
    if view.is_stale:
        found.append(MastershipBar(_STALE, is_overruled=True, lacks_copies=True))
    elif doubting := sorted(record.node for record in view.others.values() if record.role is Role.DOUBT):
        found.append(
            MastershipBar(f"etcd is older than {', '.join(doubting)} remembers; see accept-restore", is_overruled=True)
        )
    elif not _has_all(keeper, view):
        reason = _NOT_COMPARED if keeper.memory.own_epoch else _NEVER_COMPARED
        found.append(MastershipBar(reason, is_overruled=True, lacks_copies=True))
    if now < (until := reset_until(keeper, view)):
        found.append(MastershipBar("its watchdog may have reset it; it waits", is_overruled=True, until=until))
    if now < keeper.not_before:
        found.append(MastershipBar(keeper.pause_reason or "it waits", is_overruled=True, until=keeper.not_before))
    return found


def _has_all(keeper: Keeper, view: View) -> bool:
    memory = keeper.memory
    if view.epoch == 0:
        return True
    if memory.lacking >= max(1, view.synced):
        return False
    return memory.own_epoch == view.epoch or view.synced > memory.own_epoch


def reset_until(keeper: Keeper, view: View) -> float:
    """Return until when a node that was reset as the master waits; the others keep its orphaned locks for that time.

    By the clock that begins when the machine is started. 0: it was not.
    """
    last = view.last_master
    if last is None or last.clean or last.node != keeper.me.node or last.boot_id == keeper.me.boot_id:
        return 0.0
    return ghost_s(last) or 0.0


def fit_others(view: View) -> tuple[str, ...]:
    """Return the names of the other nodes that may become the master by themselves, the best first."""
    if view.is_full:
        return ()
    fit = [record for record in view.others.values() if record.priority > 0 and not record.reasons]
    return tuple(record.node for record in sorted(fit, key=lambda record: (-record.priority, record.node)))


def may_still_run(last: LastMaster | None, keeper: Keeper) -> bool:
    """Whether jobs of an earlier master may run on, on another machine."""
    return last is not None and not last.clean and last.node != keeper.me.node


# What a keeper is that holds no mastership.
#
# Source: lease.md 7.


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
