"""Pending requests: the owners that wait for locks, and which of them are granted when room is made.

Theory. An owner has at most one pending request; it holds nothing and reserves nothing, and
newcomers may pass it. After each change the pending requests are tried in ascending order of
(priority, owner); the first that is possible is granted, and the trial starts again from the top,
until a whole pass grants nothing. That is the rule; trying them all is not how it is done. A state
with a bound on bypassing adds to what is possible: `fairness`.

Each pending request is *parked* at one gate that is shut for it (see `table`). A gate opens
only by a release or downgrade at that very place, so requests parked elsewhere need not be
looked at. All requests parked at a gate ask the same of it: if its wall is empty all of them may try,
if one owner stands in it only that owner's own request may (an upgrade), otherwise none. So of each
opened gate only the first in order is tried; if it is granted and shuts the gate behind it, the
others have not been touched, and handing a lock over costs the same with two waiters as with a
thousand. One that is still kept out is parked at the gate that keeps it out now. A request that no gate
keeps out, but an overdue request holds back, is parked behind that one, and tried when it has gone.

All functions are pure and return a `Change`; what they refuse leaves no trace.

Source: daemons design, "Locking"; wconfd.md 5.3, 5.5 and 5.6.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from common.errors import AlreadyPending, LockRuleViolation, UpgradeDeadlock
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner, mode_rank
from daemons.wconfd.core.locks.pending import LockState, PendingRequest
from daemons.wconfd.core.locks.rings import find_ring
from daemons.wconfd.core.locks.settling import Change as Change
from daemons.wconfd.core.locks.settling import Move as Move
from daemons.wconfd.core.locks.settling import Settling
from daemons.wconfd.core.locks.table import wanted_modes


def try_update(state: LockState, owner: Owner, requests: Sequence[LockRequest]) -> Change:
    """Grant all items now, or tell the owners in the way and change nothing.

    A request that is exactly true already succeeds, also where the rules would refuse it: so a
    call that is delivered twice succeeds twice.

    Raises:
        AlreadyPending: the owner has a pending request; also for an empty list.
        OrderViolation, LockRuleViolation: as `LockTable.check_rules`.
    Source: wconfd.md 5.3.
    """
    _refuse_pending(state, owner)
    if state.table.is_satisfied(owner, requests):
        return Change(state)
    state.table.check_rules(owner, requests)
    in_the_way = state.in_the_way(owner, tuple(requests))
    return Change(state, in_the_way) if in_the_way else Settling(state).give(owner, wanted_modes(requests)).change()


def update_or_queue(state: LockState, owner: Owner, priority: int, requests: Sequence[LockRequest]) -> Change:
    """Grant all items now, or let the request wait until they can be granted.

    The same list (same items, same order) while it is pending changes nothing, not even the priority,
    and returns the owners that are in the way now.

    Args:
        priority: smaller is more urgent.
    Raises:
        AlreadyPending: the owner has another pending request.
        OrderViolation, LockRuleViolation: as `LockTable.check_rules`; such a request is never queued.
        UpgradeDeadlock: in a fair state, the owner would wait for one that waits for it; not queued.
    Source: wconfd.md 5.3.
    """
    request = PendingRequest(priority, owner, tuple(requests))
    pending = state.pending_of(owner)
    if pending and pending.requests == request.requests:
        return Change(state, blockers(state, owner))
    change = try_update(state, owner, request.requests)
    if not change.blocked_on:
        return change
    spot = state.obstacle(owner, request.requests)
    assert spot is not None  # a blocked request is kept out somewhere
    after = state.parked(request, spot)
    if state.is_fair:
        _refuse_ring(after, request)
    return Change(after, change.blocked_on, is_queued=True)


def blockers(state: LockState, owner: Owner) -> tuple[Owner, ...]:
    """The owners in the way of this owner's pending request, in owner order; none if it has no request."""
    pending = state.pending_of(owner)
    return state.in_the_way(owner, pending.requests) if pending else ()


def free_all(state: LockState, owner: Owner) -> Change:
    """Drop the owner's pending request and all its locks. Never fails.

    This is also what happens to an owner that died.
    """
    return _weaken(state, owner, lambda lock, mode: None)


def free_level(state: LockState, owner: Owner, level: LockLevel) -> Change:
    """Drop the owner's pending request, whatever its level, and all its locks of `level`. Never fails."""
    return _weaken(state, owner, lambda lock, mode: None if lock.level is level else mode)


def downgrade_level(state: LockState, owner: Owner, level: LockLevel) -> Change:
    """Drop the owner's pending request and turn its exclusive locks of `level` into shared. Never fails."""
    return _weaken(state, owner, lambda lock, mode: LockMode.SHARED if lock.level is level else mode)


def intersect(state: LockState, owner: Owner, locks: Collection[Lock]) -> Change:
    """Drop the owner's pending request and every lock that is not among `locks`. Never fails."""
    kept = frozenset(locks)
    return _weaken(state, owner, lambda lock, mode: mode if lock in kept else None)


def opportunistic_union(state: LockState, owner: Owner, wanted: Iterable[tuple[Lock, LockMode]]) -> Change:
    """Take of `wanted` what can be had now, in lock order, and leave the rest. Never fails.

    What is held in that mode or a stronger one is not asked for. A lock asked in both modes may be
    taken twice. With a pending request nothing is taken.

    Source: wconfd.md 5.5.
    """
    held = state.table.mode_of
    missing = [LockRequest(lock, mode) for lock, mode in wanted if mode_rank(mode) > mode_rank(held(owner, lock))]
    taken: list[Lock] = []
    moves: list[Move] = []
    for request in sorted(missing, key=LockRequest.sort_key):
        try:
            change = try_update(state, owner, [request])
        except LockRuleViolation:
            continue
        if not change.blocked_on:
            state = change.state
            taken.append(request.lock)
            moves += change.moves
    # taking locks makes no room: no request was granted
    return Change(state, taken=tuple(reversed(taken)), moves=tuple(moves))


def guarded_union(state: LockState, owner: Owner, least: int, wanted: Iterable[tuple[Lock, LockMode]]) -> Change:
    """As `opportunistic_union`, but all or nothing: take at least `least` locks, or none.

    Locks held before do not count.
    """
    change = opportunistic_union(state, owner, wanted)
    return change if len(change.taken) >= least else Change(state)


def _refuse_pending(state: LockState, owner: Owner) -> None:
    pending = state.pending_of(owner)
    if pending:
        locks = ", ".join(f"'{request.lock}'" for request in pending.requests)
        raise AlreadyPending(
            f"{owner} has a pending request for {locks}; wait until it is granted, or free a lock level to give it up",
            owner=owner.to_wire(),
        )


def _refuse_ring(state: LockState, request: PendingRequest) -> None:
    ring = find_ring(request.owner, lambda owner: blockers(state, owner))
    if ring:
        chain = ", which waits for ".join(map(str, (*ring[1:], request.owner)))
        raise UpgradeDeadlock(
            f"deadlock: {request.owner} would wait for {chain}; release what it holds, and ask for all in one request",
            owner=request.owner.to_wire(),
            holder=ring[1].to_wire(),
            ring=[each.to_wire() for each in ring],
        )


def _weaken(state: LockState, owner: Owner, rule: Callable[[Lock, LockMode], LockMode | None]) -> Change:
    """Drop the pending request, and set each held lock to what `rule` says: its mode or less.

    Asking for less cannot be blocked and breaks no rule.
    """
    settling = Settling(state).drop_pending(owner)
    modes = {lock: rule(lock, mode) for lock, mode in state.table.modes_of(owner).items()}
    return settling.give(owner, modes).change()
