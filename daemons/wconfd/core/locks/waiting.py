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

All functions are pure and return a `LockChange`; what they refuse leaves no trace.

Source: daemons design, "Locking"; wconfd.md 5.3, 5.5 and 5.6.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Final

import attrs
from immutables import Map

from common.errors import AlreadyPending, LockRuleViolation, UpgradeDeadlock
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner, mode_rank
from daemons.wconfd.core.locks.fairness import Fairness, PendingRequest, Place, RequestStatus
from daemons.wconfd.core.locks.mayrun import NOTHING_RUNS, MayRun
from daemons.wconfd.core.locks.table import LockGate, LockTable, opened_gates, wanted_modes

# The pending requests, each parked where it is kept out, and the table they wait for.
#
# Invariant between calls: each pending request breaks no rule, and is parked either at a gate that is
# shut for it, or, if none is, behind an overdue request that holds it back (`fairness`). (Its owner
# cannot change its holdings without losing the request, so a rule that held when it was queued still
# holds.) The theory is in `waiting`.


__all__ = ["Behind", "LockState", "PendingRequest", "Place"]


@attrs.frozen(cache_hash=True)
class Behind:
    """The spot of the requests that an overdue one holds back."""

    owner: Owner


Spot = LockGate | Behind


@attrs.frozen
class _Parked:
    request: PendingRequest
    spot: Spot = attrs.field(eq=False)


_NOTHING_PARKED: Final[Map[Owner, _Parked]] = Map()
_NO_QUEUES: Final[Map[Spot, tuple[PendingRequest, ...]]] = Map()


@attrs.frozen
class LockState:
    """The holdings and the pending requests: a value. Start from `LockState()`, or `LockState.fair(16)`."""

    table: LockTable = attrs.field(factory=LockTable)
    _parked: Map[Owner, _Parked] = _NOTHING_PARKED
    # requests parked at each spot, in order; derived, no empty queue
    _queues: Map[Spot, tuple[PendingRequest, ...]] = attrs.field(default=_NO_QUEUES, eq=False, repr=False)
    fairness: Fairness = attrs.field(factory=Fairness, eq=False, repr=False)
    # commands of owners that hold locks, which may still run; not a part of `locks.data`
    may_run: MayRun = NOTHING_RUNS

    @classmethod
    def fair(cls, max_bypass: int | None) -> "LockState":
        """The empty state; None: without a bound on bypassing, and with upgrades that wait for each other."""
        return cls(fairness=Fairness(max_bypass))

    @property
    def is_fair(self) -> bool:
        return self.fairness.max_bypass is not None

    def pending_of(self, owner: Owner) -> PendingRequest | None:
        parked = self._parked.get(owner)
        return parked.request if parked else None

    def standing_of(self, owner: Owner) -> RequestStatus:
        parked = self._parked.get(owner)
        if parked is None:
            return RequestStatus.NONE
        return RequestStatus.BEHIND if isinstance(parked.spot, Behind) else RequestStatus.PARKED

    def knows(self, owner: Owner) -> bool:
        """Whether the owner holds or waits. Cost: O(1)."""
        return owner in self._parked or bool(self.table.modes_of(owner))

    def all_pending(self) -> tuple[PendingRequest, ...]:
        """Every pending request, in order of trial: (priority, owner)."""
        return tuple(sorted((parked.request for parked in self._parked.values()), key=lambda request: request.place))

    @property
    def waiting_count(self) -> int:
        """Number of pending requests. Cost: O(1)."""
        return len(self._parked)

    def owners(self) -> frozenset[Owner]:
        """All owners that hold or wait."""
        waiting = frozenset(parked.request.owner for parked in self._parked.values())
        return frozenset(self.table.owners()) | waiting

    def with_table(self, table: LockTable) -> "LockState":
        """The same requests over another table, in which every parked one is kept out too."""
        return LockState(table, self._parked, self._queues, self.fairness, self.may_run)

    def with_may_run(self, may_run: MayRun) -> "LockState":
        """The same locks and requests; the very same state if these are its commands already."""
        return self if may_run is self.may_run else attrs.evolve(self, may_run=may_run)

    def has_locks_of(self, other: "LockState") -> bool:
        """Whether locks and requests are those of the other, neither of them changed since. Cost: O(1)."""
        return self.table is other.table and self._parked is other._parked

    def obstacle(self, owner: Owner, requests: tuple[LockRequest, ...]) -> Spot | None:
        """Where this request is kept out; None if it is free to go. Cost: O(requests), and of overdue ones."""
        gate = self.table.shut_gate(owner, requests)
        if gate is not None:
            return gate
        ahead = self.ahead_of(owner, requests)
        return Behind(ahead[0]) if ahead else None

    def in_the_way(self, owner: Owner, requests: tuple[LockRequest, ...]) -> tuple[Owner, ...]:
        """The holders in the way, in owner order; if there are none, the overdue that go first."""
        holders = self.table.blockers(owner, requests)
        return holders or tuple(self.ahead_of(owner, requests))

    def ahead_of(self, owner: Owner, requests: Sequence[LockRequest]) -> list[Owner]:
        """The overdue owners that hold this request back, in owner order."""
        return self.fairness.ahead_of(self.table, owner, requests, self.may_run.orphans)

    def held_back_in_vain(self) -> list[PendingRequest]:
        """The requests that are parked behind overdue ones which wait for an orphan. Cost: O(overdue requests)."""
        late = self.fairness.waiting_for(self.table, self.may_run.orphans)
        return [request for owner in late for request in self.held_back_by(owner)]

    def parked(self, request: PendingRequest, spot: Spot) -> "LockState":
        """With this request pending, kept out at `spot`; its owner has no other."""
        return self._put(request, spot, self.fairness.entered(request))

    def moved(self, request: PendingRequest, spot: Spot) -> "LockState":
        """With this pending request kept out at another spot."""
        return self._taken(self._parked[request.owner], self.fairness)._put(request, spot, self.fairness)

    def parked_behind_overdue(self, request: PendingRequest) -> "LockState | None":
        """Return the state with this request, which no gate keeps out, held back by those that must have done so.

        None: none can have. For a state that is read from a file; the owner has no other pending request.
        """
        orphans = self.may_run.orphans
        fairness = self.fairness.assuming_overdue(self.table, request.owner, request.requests, orphans)
        state = attrs.evolve(self, fairness=fairness)
        spot = state.obstacle(request.owner, request.requests)
        return state.parked(request, spot) if spot else None

    def without_pending(self, owner: Owner) -> "LockState":
        """Without the owner's pending request, if there is one.

        The caller tries again those that it held back: `held_back_by` it, asked before.
        """
        parked = self._parked.get(owner)
        return self._taken(parked, self.fairness.left(parked.request)) if parked else self

    def held_back_by(self, owner: Owner) -> tuple[PendingRequest, ...]:
        return self._queues.get(Behind(owner), ())

    def after_shared(self, locks: Collection[Lock]) -> "LockState":
        """Return the state with a grant of these locks, shared, counted as a pass of all that want them exclusively."""
        fairness = self.fairness.passed(locks) if locks else self.fairness
        return self if fairness is self.fairness else attrs.evolve(self, fairness=fairness)

    def first_let_through(self, gate: LockGate) -> PendingRequest | None:
        """The first request parked at this gate for which it is no longer shut. Cost: O(1)."""
        queue = self._queues.get(gate)
        wall = self.table.wall(gate)
        if queue is None or len(wall) > 1:
            return None
        if not wall:
            return queue[0]
        own = self._parked.get(next(iter(wall)))
        return own.request if own and own.spot == gate else None

    def _put(self, request: PendingRequest, spot: Spot, fairness: Fairness) -> "LockState":
        queue = self._queues.get(spot, ())
        at = bisect_left(queue, request.place, key=_place)
        queues = self._queues.set(spot, (*queue[:at], request, *queue[at:]))
        parked = self._parked.set(request.owner, _Parked(request, spot))
        return LockState(self.table, parked, queues, fairness, self.may_run)

    def _taken(self, parked: _Parked, fairness: Fairness) -> "LockState":
        queue = self._queues[parked.spot]
        at = bisect_left(queue, parked.request.place, key=_place)
        left = (*queue[:at], *queue[at + 1 :])
        queues = self._queues.set(parked.spot, left) if left else self._queues.delete(parked.spot)
        return LockState(self.table, self._parked.delete(parked.request.owner), queues, fairness, self.may_run)


def _place(request: PendingRequest) -> Place:
    return request.place


# Granting what a change makes possible: the procedure of `waiting`, and what a call did.
#
# Source: wconfd.md 5.3.


@attrs.frozen
class LockMove:
    """What became of one owner's locks: lock -> mode, None for one released."""

    owner: Owner
    modes: Mapping[Lock, LockMode | None]


@attrs.frozen
class LockChange:
    """What a call did."""

    # the very same state if nothing changed
    state: LockState
    # the owners in the way, in owner order; empty: granted, or nothing to wait for
    blocked_on: tuple[Owner, ...] = ()
    # owners whose pending requests this call granted, in the order of the grants; never the caller
    granted: tuple[Owner, ...] = ()
    # locks that a union took or upgraded, the last one first
    taken: tuple[Lock, ...] = ()
    # locks given and taken away, in order
    moves: tuple[LockMove, ...] = ()
    # whether the caller's request has just become pending
    is_queued: bool = False

    @property
    def only_gives_back(self) -> bool:
        """Whether nobody has more than before: locks were released, a request may have been dropped."""
        return not (self.granted or self.is_queued) and all(
            mode is None for move in self.moves for mode in move.modes.values()
        )


class Settling:
    """Grants what a change makes possible, in order, each grant before the next trial.

    Cost: O(gates opened + requests tried); tried is, for each grant, at most one request that stays
    behind an opened gate, requests let through to be kept out elsewhere, and requests that an overdue
    request held back that was granted or given up.
    """

    def __init__(self, state: LockState) -> None:
        self._state = state
        self._moves: list[LockMove] = []
        self._heap: list[tuple[Place, int, LockGate | None, Owner]] = []
        self._count = count()

    def drop_pending(self, owner: Owner) -> "Settling":
        held_back = self._state.held_back_by(owner)
        self._state = self._state.without_pending(owner)
        self._try_again(held_back)
        return self

    def give(self, owner: Owner, modes: Mapping[Lock, LockMode | None]) -> "Settling":
        """Set an owner's locks to these modes, which conflict with no other owner's."""
        before = self._state.table.modes_of(owner)
        changed = {lock: mode for lock, mode in modes.items() if before.get(lock) is not mode}
        if not changed:
            return self
        table = self._state.table.set_modes(owner, changed)
        self._moves.append(LockMove(owner, changed))
        self._state = self._state.with_table(table)
        if self._state.may_run and not table.modes_of(owner):
            # the commands of who holds nothing do not matter
            self._state = self._state.with_may_run(self._state.may_run.without(owner))
        if self._state.is_fair:
            shared = [lock for lock, mode in changed.items() if mode is LockMode.SHARED and lock not in before]
            self._state = self._state.after_shared(shared)
        if self._state.waiting_count:
            self._open(opened_gates(before, changed))
        return self

    def try_held_back(self) -> "Settling":
        """Try again the requests behind those that wait for an orphan; call this when one has come."""
        self._try_again(self._state.held_back_in_vain())
        return self

    def change(self) -> LockChange:
        """Settle; all that was done."""
        granted: list[Owner] = []
        while (found := self._pop()) is not None:
            request, gate = found
            spot = self._state.obstacle(request.owner, request.requests)
            if spot:
                self._state = self._state.moved(request, spot)
            else:
                self.drop_pending(request.owner).give(request.owner, wanted_modes(request.requests))
                granted.append(request.owner)
            if gate:
                self._open([gate])
        return LockChange(self._state, granted=tuple(granted), moves=tuple(self._moves))

    def _open(self, gates: Iterable[LockGate]) -> None:
        for gate in gates:
            first = self._state.first_let_through(gate)
            if first:
                heapq.heappush(self._heap, (first.place, next(self._count), gate, first.owner))

    def _try_again(self, requests: Iterable[PendingRequest]) -> None:
        for request in requests:
            heapq.heappush(self._heap, (request.place, next(self._count), None, request.owner))

    def _pop(self) -> tuple[PendingRequest, LockGate | None] | None:
        """The first request of all that may try in this state, and the gate that lets it through, if one does."""
        while self._heap:
            place, _, gate, owner = heapq.heappop(self._heap)
            request = self._state.first_let_through(gate) if gate else self._state.pending_of(owner)
            if request and request.place == place:
                return request, gate
            if gate:
                # another request is first now, or the gate is shut again
                self._open([gate])
        return None


# Rings of waits: owners of which each waits for the next, and the last for the first.
#
# Theory. Owners ask only for locks after those they hold (`rules`), so to wait is to wait for an
# owner that stands further along the line, and none stands behind itself. The one exception is an
# upgrade: two that share a lock, or a group and a member of it, may each want it alone; the rule lets
# them, as the lock is their greatest. Such a ring closes with the request of the last, and can be
# refused then: an owner that is granted something does not wait, so no grant ever closes one.
#
# Source: wconfd.md 5.3 and 9.6.


Blockers = Callable[[Owner], Iterable[Owner]]


def find_ring(first: Owner, behind: Blockers) -> tuple[Owner, ...]:
    """A ring through `first`, each before the one it waits for; empty if there is none.

    Args:
        behind: returns the owners for which one waits; none if it does not wait.
    Cost: O(waits that can be reached).
    """
    came_from: dict[Owner, Owner] = {}
    left = [first]
    while left:
        waiter = left.pop()
        for other in behind(waiter):
            if other == first:
                return _path(came_from, waiter)
            if other not in came_from:
                came_from[other] = waiter
                left.append(other)
    return ()


def _path(came_from: dict[Owner, Owner], last: Owner) -> tuple[Owner, ...]:
    path = [last]
    while path[-1] in came_from:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def try_update(state: LockState, owner: Owner, requests: Sequence[LockRequest]) -> LockChange:
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
        return LockChange(state)
    state.table.check_rules(owner, requests)
    in_the_way = state.in_the_way(owner, tuple(requests))
    return LockChange(state, in_the_way) if in_the_way else Settling(state).give(owner, wanted_modes(requests)).change()


def update_or_queue(state: LockState, owner: Owner, priority: int, requests: Sequence[LockRequest]) -> LockChange:
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
        return LockChange(state, blockers(state, owner))
    change = try_update(state, owner, request.requests)
    if not change.blocked_on:
        return change
    spot = state.obstacle(owner, request.requests)
    assert spot is not None  # a blocked request is kept out somewhere
    after = state.parked(request, spot)
    if state.is_fair:
        _refuse_ring(after, request)
    return LockChange(after, change.blocked_on, is_queued=True)


def blockers(state: LockState, owner: Owner) -> tuple[Owner, ...]:
    """The owners in the way of this owner's pending request, in owner order; none if it has no request."""
    pending = state.pending_of(owner)
    return state.in_the_way(owner, pending.requests) if pending else ()


def free_all(state: LockState, owner: Owner) -> LockChange:
    """Drop the owner's pending request and all its locks. Never fails.

    This is also what happens to an owner that died.
    """
    return _weaken(state, owner, lambda lock, mode: None)


def free_level(state: LockState, owner: Owner, level: LockLevel) -> LockChange:
    """Drop the owner's pending request, whatever its level, and all its locks of `level`. Never fails."""
    return _weaken(state, owner, lambda lock, mode: None if lock.level is level else mode)


def downgrade_level(state: LockState, owner: Owner, level: LockLevel) -> LockChange:
    """Drop the owner's pending request and turn its exclusive locks of `level` into shared. Never fails."""
    return _weaken(state, owner, lambda lock, mode: LockMode.SHARED if lock.level is level else mode)


def intersect(state: LockState, owner: Owner, locks: Collection[Lock]) -> LockChange:
    """Drop the owner's pending request and every lock that is not among `locks`. Never fails."""
    kept = frozenset(locks)
    return _weaken(state, owner, lambda lock, mode: mode if lock in kept else None)


def opportunistic_union(state: LockState, owner: Owner, wanted: Iterable[tuple[Lock, LockMode]]) -> LockChange:
    """Take of `wanted` what can be had now, in lock order, and leave the rest. Never fails.

    What is held in that mode or a stronger one is not asked for. A lock asked in both modes may be
    taken twice. With a pending request nothing is taken.

    Source: wconfd.md 5.5.
    """
    held = state.table.mode_of
    missing = [LockRequest(lock, mode) for lock, mode in wanted if mode_rank(mode) > mode_rank(held(owner, lock))]
    taken: list[Lock] = []
    moves: list[LockMove] = []
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
    return LockChange(state, taken=tuple(reversed(taken)), moves=tuple(moves))


def guarded_union(state: LockState, owner: Owner, least: int, wanted: Iterable[tuple[Lock, LockMode]]) -> LockChange:
    """As `opportunistic_union`, but all or nothing: take at least `least` locks, or none.

    Locks held before do not count.
    """
    change = opportunistic_union(state, owner, wanted)
    return change if len(change.taken) >= least else LockChange(state)


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


def _weaken(state: LockState, owner: Owner, rule: Callable[[Lock, LockMode], LockMode | None]) -> LockChange:
    """Drop the pending request, and set each held lock to what `rule` says: its mode or less.

    Asking for less cannot be blocked and breaks no rule.
    """
    settling = Settling(state).drop_pending(owner)
    modes = {lock: rule(lock, mode) for lock, mode in state.table.modes_of(owner).items()}
    return settling.give(owner, modes).change()
