"""A mastership while it is held, what the master does with the requests of operators, and how it ends."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, assert_never

import attrs

from common.errors import Conflict
from common.lease.records import OperatorRequest, WantedKind
from common.objects.kinds import natural_key, short_names
from daemons.keeperd.core.events import (
    Act,
    DaemonsEnded,
    DaemonsFailed,
    DaemonsReady,
    Drain,
    Drained,
    DrainNoMore,
    DropLease,
    KillDaemons,
    LeaseRenewed,
    Look,
    MayEnd,
    NodesTold,
    OwnNodeSilent,
    Release,
    RemoveWanted,
    SetDeadline,
    StartDaemons,
    StopDaemons,
    Tell,
)
from daemons.keeperd.core.fitness import NO_FAILOVER, fit_others, settled
from daemons.keeperd.core.keeper import EndCause, Heard, Keeper, OwnMastership, Step, moved
from daemons.keeperd.core.states import HOLDING, State, View
from protocol.noded.membership import NodeProgress

# What happens to the master while it holds its lease.
#
# Theory. That the lease was renewed is judged by when the renewal was sent. That etcd says so later than the deadline
# changes nothing. The end of the key or of the lease is believed at once.
#
# Source: lease.md 7.


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


def renewed(keeper: Keeper, event: LeaseRenewed) -> Step:
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
    keeper, acts = conclude_request(moved(keeper, State.MASTER))
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


# What the master does with the request of an operator.
#
# Source: lease.md 2 and 7.


# seconds that a switch-over waits for a candidate that has not all copies yet
COPIES_LIMIT_S: Final = 60.0
# seconds beyond the limit of a request in which whoever asked takes it back
SLACK_S: Final = 5.0


@attrs.frozen
class RequestRefusal:
    """Why the master does not obey."""

    reason: str
    # whether it ends when the master has compared the files of other nodes
    may_pass: bool = False


def consider_request(keeper: Keeper, now: float) -> Step:
    """The master has read what is wanted: obey, wait for copies, or refuse with the reason."""
    view, held = keeper.view, keeper.held
    if view is None or held is None or keeper.state is not State.MASTER or not held.is_ready:
        return keeper, ()
    request = view.wanted
    if request is None:
        return attrs.evolve(keeper, verdict=None, heard=None), ()
    if keeper.verdict is not None and keeper.verdict.wanted == request:
        # its removal is on its way, or was in vain
        return keeper, (keeper.verdict,)
    keeper, heard = _heard(keeper, request, now)
    refusal = _late(heard, now) or refused(keeper, view, request)
    if refusal is None:
        return make_way(keeper, request)
    if not refusal.may_pass:
        return _decided(keeper, RemoveWanted(request, refusal.reason))
    if now < heard.at + COPIES_LIMIT_S:
        return keeper, ()
    return _decided(keeper, RemoveWanted(request, f"{refusal.reason}; that did not end within {COPIES_LIMIT_S:g} s"))


def reconsider(keeper: Keeper, now: float) -> Step:
    """Make way on only while the operator wants it, and another node can take over."""
    view, request = keeper.view, keeper.leaving
    if view is None or request is None or not keeper.is_draining:
        return keeper, ()
    if view.wanted != request:
        return stay(keeper)
    keeper, heard = _heard(keeper, request, now)
    refusal = _late(heard, now) or refused(keeper, view, request)
    if refusal is None:
        return keeper, ()
    keeper, acts = stay(keeper)
    if refusal.may_pass:
        # its record was from before this mastership; the master waits first
        return keeper, (*acts, Look())
    keeper, more = _decided(keeper, RemoveWanted(request, refusal.reason))
    return keeper, (*acts, *more)


def _heard(keeper: Keeper, request: OperatorRequest, now: float) -> tuple[Keeper, Heard]:
    heard = keeper.heard
    if heard is None or heard.request != request:
        heard = Heard(request, now)
    return attrs.evolve(keeper, heard=heard), heard


def _late(heard: Heard, now: float) -> RequestRefusal | None:
    """Whoever asked takes it back in time; this is for one who has gone."""
    limit_s = heard.request.limit_s
    if not limit_s or now < heard.at + limit_s + SLACK_S:
        return None
    return RequestRefusal(f"the mastership was not moved within {limit_s:g} s")


def conclude_request(keeper: Keeper) -> Step:
    """The daemons serve: the request by which, or beside which, the mastership was won is over."""
    assert keeper.held is not None
    request = keeper.held.request
    came_back = keeper.made_way_until > 0
    keeper = attrs.evolve(keeper, made_way_until=0.0)
    if request is None:
        return keeper, ()
    me = keeper.me.node
    if request.node not in ("", me):
        return _decided(keeper, RemoveWanted(request, f"'{request.node}' has not taken over in time; '{me}' has"))
    if came_back:
        refusal = f"no other node has taken over within {TAKER_LIMIT_S:g} s; '{me}' is the master again"
        return _decided(keeper, RemoveWanted(request, refusal))
    return _decided(keeper, RemoveWanted(request))


def _decided(keeper: Keeper, verdict: RemoveWanted) -> Step:
    return attrs.evolve(keeper, verdict=verdict), (verdict,)


def refused(keeper: Keeper, view: View, request: OperatorRequest) -> RequestRefusal | None:
    """Return why the master does not obey; None: it does."""
    me = keeper.me.node
    match request.kind:
        case WantedKind.TAKEOVER:
            return RequestRefusal(
                f"'{me}' is the master and renews its lease; use 'gantry cluster switchover', or stop keeperd on '{me}'"
            )
        case WantedKind.SWITCHOVER:
            return _switchover_refused(keeper, view, request)
        case _:
            assert_never(request.kind)


def _switchover_refused(keeper: Keeper, view: View, request: OperatorRequest) -> RequestRefusal | None:
    me = keeper.me.node
    if request.node == me:
        return RequestRefusal(f"'{me}' is the master already")
    if keeper.in_maintenance:
        return RequestRefusal("maintenance is on; end it with 'gantry cluster maintenance off' first")
    if view.is_full:
        return RequestRefusal("etcd is full, so nobody could take over; make room first")
    if request.node:
        return _target_refused(view, request.node)
    if fit_others(view):
        return None
    others = "; ".join(f"{name}: {_why_not(view, name)}" for name in sorted(view.others))
    may_pass = any(record.lacks_copies and record.priority > 0 for record in view.others.values())
    return RequestRefusal(f"no other node may become the master: {others or 'none lives'}", may_pass=may_pass)


def _target_refused(view: View, node: str) -> RequestRefusal | None:
    record = view.others.get(node)
    if record is None:
        return RequestRefusal(f"'{node}' is no candidate whose keeperd runs")
    # that it never becomes the master by itself is no obstacle to an operator
    reasons = [reason for reason in record.reasons if reason != NO_FAILOVER.reason]
    if not reasons:
        return None
    return RequestRefusal(f"'{node}' may not become the master: {', '.join(reasons)}", may_pass=record.lacks_copies)


def _why_not(view: View, node: str) -> str:
    return ", ".join(view.others[node].reasons) or "priority 0"


# Which candidate an operator means by a name.
#
# Source: DESIGN section 14.


def living_node(word: str, living: Sequence[str]) -> str:
    """Return the whole name of a candidate whose keeperd runs, for its name or a short form that no other one has.

    Args: word: empty, and then returned: any node is meant.
    Raises: Conflict: there is no such candidate; with the names of those that there are.
    """
    if not word or word in living:
        return word
    found = [name for name in living if word in short_names(name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"'{name}'" for name in sorted(living, key=natural_key)) or "none"
    which = "is the short name of several candidates" if found else "is no candidate whose keeperd runs"
    raise Conflict(f"'{word}' {which}; those are: {names}")


# How a mastership ends: asked for, forced, or too late.
#
# Theory. The lease is given back only when nothing lives that ran under it: whoever gives it back before makes a second
# master. Where that cannot be proven in time, the lease runs out, and the deadline, the watchdog, and the fence of each
# write keep what still lives from acting.
#
#     leaving    renews on; the daemons end in their time; then the lease is given back
#     stopping   renews no more; SIGTERM, then SIGKILL
#     lost       the deadline has passed and something may live: SIGKILL again and again, and the watchdog bites
#
# Source: lease.md 6, 7 and 8.


# seconds that the daemons get when keeperd is ended or hands over
STOP_LIMIT_S: Final = 20.0
# seconds between two SIGKILLs for what does not end
KILL_AGAIN_S: Final = 3.0
# seconds in which another node must take over before the old master campaigns itself
TAKER_LIMIT_S: Final = 10.0
# causes by which the daemons may use the time until the deadline
_IN_TIME: Final = (EndCause.DEADLINE, EndCause.CORRUPT)


def make_way(keeper: Keeper, request: OperatorRequest) -> Step:
    """Begin a switch-over: the daemons run on until nothing is left to do."""
    keeper = attrs.evolve(moved(keeper, State.LEAVING), cause=EndCause.SWITCHOVER, leaving=request, is_draining=True)
    return keeper, (Drain(request.node, request.kill),)


def stay(keeper: Keeper) -> Step:
    """Take a switch-over back; the daemons have not been asked to end."""
    keeper = attrs.evolve(moved(keeper, State.MASTER), cause=EndCause.NONE, leaving=None, is_draining=False)
    return keeper, (DrainNoMore(),)


def drained(keeper: Keeper, event: Drained, now: float) -> Step:
    if keeper.state is not State.LEAVING or not keeper.is_draining or held_of(keeper, event.epoch) is None:
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
