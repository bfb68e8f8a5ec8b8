"""What happens to the master while it holds its lease.

Theory. That the lease was renewed is judged by when the renewal was sent. That etcd says so later than the deadline
changes nothing. The end of the key or of the lease is believed at once.

Source: lease.md 7.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from daemons.keeperd.core.events import (
    DaemonsFailed,
    DaemonsReady,
    Look,
    NodesTold,
    OwnNodeSilent,
    Renewed,
    SetDeadline,
    StartDaemons,
    Tell,
)
from daemons.keeperd.core.fitness import fit_others
from daemons.keeperd.core.keeper import EndCause, Keeper, OwnMastership, Step, moved
from daemons.keeperd.core.leaving import give_up, leave, stop
from daemons.keeperd.core.states import HOLDING, State, View
from daemons.keeperd.core.wishes import conclude_wish
from protocol.noded.membership import NodeProgress

# failures of the daemons within this time, in seconds, after which another node is tried
FAILURES: Final = 3
FAILURES_S: Final = 60.0
# seconds until the next start when no other node may have them
RESTART_S: Final = 5.0
# seconds for which a take-over waits for its own node daemon, if another node can do it
OWN_NODE_S: Final = 10.0
# seconds between two masterships that are given up because a node knows a higher epoch
GIVE_UP_S: Final = 60.0


def held_of(keeper: Keeper, epoch: int) -> OwnMastership | None:
    """Return the mastership of this epoch, if it is held and renewed; else what is told about it is late."""
    held = keeper.held
    return held if held is not None and held.epoch == epoch and keeper.state in HOLDING else None


def renewed(keeper: Keeper, event: Renewed) -> Step:
    held = held_of(keeper, event.epoch)
    if held is None or event.sent_at <= held.renewed_at:
        return keeper, ()
    held = attrs.evolve(held, renewed_at=event.sent_at)
    return attrs.evolve(keeper, held=held), (SetDeadline(held.deadline),)


def lease_lost(keeper: Keeper, epoch: int, now: float, cause: EndCause) -> Step:
    return stop(keeper, now, cause) if held_of(keeper, epoch) else (keeper, ())


def is_ours(held: OwnMastership, view: View) -> bool:
    """Whether the key in this view is that of this mastership; the same name or nonce is no proof by itself."""
    return (
        view.master is not None
        and view.master.nonce == held.record.nonce
        and view.master_revision == held.fence.master_revision
        and view.epoch_revision == held.fence.epoch_revision
    )


def nodes_told(keeper: Keeper, event: NodesTold, now: float) -> Step:
    """Start the daemons; or campaign above a node that has seen more than etcd and all candidates."""
    held = held_of(keeper, event.epoch)
    if held is None:
        return keeper, ()
    if event.higher > held.epoch:
        return _outdone(attrs.evolve(keeper, nodes_epoch=event.higher), held, now)
    if keeper.state is not State.TAKING or held.is_started:
        return keeper, ()
    return _start(keeper, held)


def _outdone(keeper: Keeper, held: OwnMastership, now: float) -> Step:
    tell = Tell("keeperd.outdone", {"epoch": held.epoch, "node_epoch": keeper.nodes_epoch}, is_error=True)
    if held.is_started:
        keeper, acts = stop(keeper, now, EndCause.HIGHER)
        return keeper, (tell, *acts)
    before = keeper.gave_up_at
    if before is not None and now < before + GIVE_UP_S:
        keeper = attrs.evolve(keeper, not_before=before + GIVE_UP_S, pause_reason=EndCause.HIGHER.value)
    keeper, acts = give_up(attrs.evolve(keeper, gave_up_at=now, cause=EndCause.HIGHER), now)
    return keeper, (tell, *acts)


def own_node_silent(keeper: Keeper, event: OwnNodeSilent, now: float) -> Step:
    """Wait for this node's daemon, for without its word an old master's calls count here; or let another node do it."""
    held = held_of(keeper, event.epoch)
    if held is None or keeper.state is not State.TAKING or held.is_started:
        return keeper, ()
    if event.silent_s < OWN_NODE_S or not may_move(keeper):
        return keeper, ()
    tell = Tell("keeperd.own_node_silent", {"epoch": held.epoch, "silent_s": round(event.silent_s, 3)}, is_error=True)
    until = now + held.times.ttl_s
    keeper = attrs.evolve(keeper, not_before=until, pause_reason="its own node daemon does not reply")
    keeper, acts = give_up(attrs.evolve(keeper, cause=EndCause.FAILING), now)
    return keeper, (tell, *acts)


def _start(keeper: Keeper, held: OwnMastership) -> Step:
    held = attrs.evolve(held, is_started=True, restart_at=None)
    return attrs.evolve(keeper, held=held, started_epoch=held.epoch), (StartDaemons(held.fence),)


def restart(keeper: Keeper) -> Step:
    """Start the daemons again: their pause is over."""
    assert keeper.held is not None
    return _start(keeper, keeper.held)


def daemons_ready(keeper: Keeper, event: DaemonsReady) -> Step:
    held = held_of(keeper, event.epoch)
    if held is None or not held.is_started or keeper.state is State.LEAVING:
        return keeper, ()
    keeper = attrs.evolve(keeper, held=attrs.evolve(held, is_ready=True))
    if keeper.state is not State.TAKING:
        return keeper, ()
    keeper, acts = conclude_wish(moved(keeper, State.MASTER))
    return keeper, (*acts, Look())


def daemons_failed(keeper: Keeper, event: DaemonsFailed, now: float) -> Step:
    """Start them again here; after some failures let another node do it, if one can."""
    held = held_of(keeper, event.epoch)
    if held is None or not held.is_started:
        return keeper, ()
    if keeper.state is State.LEAVING:
        # nobody is left who could drain
        return leave(keeper, now, keeper.cause) if keeper.is_draining else (keeper, ())
    failed_at = (*(at for at in held.failed_at if at > now - FAILURES_S), now)
    held = attrs.evolve(held, is_ready=False, failed_at=failed_at)
    keeper = attrs.evolve(keeper, held=held)
    tell = Tell("keeperd.daemons_failed", {"reason": event.reason, "failures": len(failed_at)}, is_error=True)
    keeper, acts = _after_failure(keeper, held, now)
    return keeper, (tell, *acts)


def _after_failure(keeper: Keeper, held: OwnMastership, now: float) -> Step:
    if len(held.failed_at) < FAILURES:
        return _start(keeper, held)
    if may_move(keeper):
        return leave(keeper, now, EndCause.FAILING)
    return attrs.evolve(keeper, held=attrs.evolve(held, restart_at=now + RESTART_S)), ()


def may_move(keeper: Keeper) -> bool:
    """Whether another node would take the mastership over."""
    return keeper.view is not None and not keeper.in_maintenance and bool(fit_others(keeper.view))


def fitness_changed(keeper: Keeper, now: float) -> Step:
    """The master cannot work here any more, as with a full disk: it leaves, if another node can do it."""
    held = keeper.held
    if held is None or not keeper.reasons or keeper.state not in HOLDING or keeper.state is State.LEAVING:
        return keeper, ()
    if not held.is_started:
        return give_up(attrs.evolve(keeper, cause=EndCause.FAILING), now)
    return leave(keeper, now, EndCause.FAILING) if may_move(keeper) else (keeper, ())


# What the replies of nodes to the claim of an epoch mean for the mastership.
#
# A node grants a number to one node only. One that got a call of this mastership before its claim, as after its own
# start, has the number without a name: it grants it to nobody, and refuses the lower ones as it should.
#
# Source: lease.md 7; DESIGN section 12.


@attrs.frozen
class Claimed:
    """What one round of claims has shown."""

    # the highest epoch that speaks against ours; 0: none does
    higher: int
    # names of nodes that do not know our epoch yet, as asked
    silent: tuple[str, ...]


def judge_claims(
    asked: Sequence[str], granted: Collection[str], standings: Mapping[str, NodeProgress], epoch: int, own_name: str
) -> Claimed:
    """Judge a round of claims.

    Args:
        granted: names of nodes that have granted our epoch.
        standings: what nodes know that have refused it, as far as they told.
    """
    against = [known for known in standings.values() if not _is_ours(known, epoch, own_name)]
    # one that has granted our number to another node counts, too
    higher = max((max(known.epoch, epoch + 1) for known in against), default=0)
    knowing = {name for name, known in standings.items() if known.epoch == epoch}.union(granted)
    return Claimed(higher, tuple(name for name in asked if name not in knowing))


def _is_ours(standing: NodeProgress, epoch: int, own_name: str) -> bool:
    """True if nothing that this node knows contradicts our mastership."""
    return standing.epoch < epoch or (standing.epoch == epoch and standing.epoch_master in ("", own_name))
