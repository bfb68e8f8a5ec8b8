"""The pending requests, each parked where it is kept out, and the table they wait for.

Invariant between calls: each pending request breaks no rule, and is parked either at a gate that is
shut for it, or, if none is, behind an overdue request that holds it back (`fairness`). (Its owner
cannot change its holdings without losing the request, so a rule that held when it was queued still
holds.) The theory is in `waiting`.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Final

import attrs
from immutables import Map

from common.locks import Lock, LockRequest, Owner
from daemons.wconfd.core.locks.fairness import Fairness
from daemons.wconfd.core.locks.guards import NO_GUARDS, Guards
from daemons.wconfd.core.locks.requests import PendingRequest, Place, Standing
from daemons.wconfd.core.locks.table import Gate, LockTable

__all__ = ["Behind", "LockState", "PendingRequest", "Place"]


@attrs.frozen(cache_hash=True)
class Behind:
    """The spot of the requests that an overdue one holds back."""

    owner: Owner


Spot = Gate | Behind


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
    # guards of owners that hold locks; not a part of `locks.data`
    guards: Guards = NO_GUARDS

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

    def standing_of(self, owner: Owner) -> Standing:
        parked = self._parked.get(owner)
        if parked is None:
            return Standing.NONE
        return Standing.BEHIND if isinstance(parked.spot, Behind) else Standing.PARKED

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
        return LockState(table, self._parked, self._queues, self.fairness, self.guards)

    def with_guards(self, guards: Guards) -> "LockState":
        """The same locks and requests; the very same state if these are its guards already."""
        return self if guards is self.guards else attrs.evolve(self, guards=guards)

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
        return self.fairness.ahead_of(self.table, owner, requests, self.guards.ghosts)

    def held_back_in_vain(self) -> list[PendingRequest]:
        """The requests that are parked behind overdue ones which wait for a ghost. Cost: O(overdue requests)."""
        late = self.fairness.waiting_for(self.table, self.guards.ghosts)
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
        ghosts = self.guards.ghosts
        fairness = self.fairness.assuming_overdue(self.table, request.owner, request.requests, ghosts)
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

    def first_let_through(self, gate: Gate) -> PendingRequest | None:
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
        return LockState(self.table, parked, queues, fairness, self.guards)

    def _taken(self, parked: _Parked, fairness: Fairness) -> "LockState":
        queue = self._queues[parked.spot]
        at = bisect_left(queue, parked.request.place, key=_place)
        left = (*queue[:at], *queue[at + 1 :])
        queues = self._queues.set(parked.spot, left) if left else self._queues.delete(parked.spot)
        return LockState(self.table, self._parked.delete(parked.request.owner), queues, fairness, self.guards)


def _place(request: PendingRequest) -> Place:
    return request.place
