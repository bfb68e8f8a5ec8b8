"""Granting what a change makes possible: the procedure of `waiting`, and what a call did.

Source: wconfd.md 5.3.
"""

import heapq
from collections.abc import Iterable, Mapping
from itertools import count

import attrs

from common.locks import Lock, LockMode, Owner
from daemons.wconfd.core.locks.pending import LockState
from daemons.wconfd.core.locks.requests import PendingRequest, Place
from daemons.wconfd.core.locks.table import Gate, wanted_modes


@attrs.frozen
class Move:
    """What became of one owner's locks: lock -> mode, None for one released."""

    owner: Owner
    modes: Mapping[Lock, LockMode | None]


@attrs.frozen
class Change:
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
    moves: tuple[Move, ...] = ()
    # whether the caller's request has just become pending
    is_queued: bool = False


class Settling:
    """Grants what a change makes possible, in order, each grant before the next trial.

    Cost: O(gates opened + requests tried); tried is, for each grant, at most one request that stays
    behind an opened gate, requests let through to be kept out elsewhere, and requests that an overdue
    request held back that was granted or given up.
    """

    def __init__(self, state: LockState) -> None:
        self._state = state
        self._moves: list[Move] = []
        self._heap: list[tuple[Place, int, Gate | None, Owner]] = []
        self._count = count()

    def drop_pending(self, owner: Owner) -> "Settling":
        held_back = self._state.held_back_by(owner)
        self._state = self._state.without_pending(owner)
        self._try_again(held_back)
        return self

    def give(self, owner: Owner, modes: Mapping[Lock, LockMode | None]) -> "Settling":
        """Set an owner's locks to these modes, which conflict with no other owner's."""
        before = self._state.table.modes_of(owner)
        change = self._state.table.set_modes(owner, modes)
        if change.table is self._state.table:
            return self
        changed = {lock: mode for lock, mode in modes.items() if before.get(lock) is not mode}
        self._moves.append(Move(owner, changed))
        self._state = self._state.with_table(change.table)
        if self._state.guards and not change.table.modes_of(owner):
            # who holds nothing has no guards
            self._state = self._state.with_guards(self._state.guards.without(owner))
        if self._state.is_fair:
            shared = [lock for lock, mode in changed.items() if mode is LockMode.SHARED and lock not in before]
            self._state = self._state.after_shared(shared)
        self._open(change.opened)
        return self

    def try_held_back(self) -> "Settling":
        """Try again the requests behind those that wait for a ghost; call this when one has come."""
        self._try_again(self._state.held_back_in_vain())
        return self

    def change(self) -> Change:
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
        return Change(self._state, granted=tuple(granted), moves=tuple(self._moves))

    def _open(self, gates: Iterable[Gate]) -> None:
        for gate in gates:
            first = self._state.first_let_through(gate)
            if first:
                heapq.heappush(self._heap, (first.place, next(self._count), gate, first.owner))

    def _try_again(self, requests: Iterable[PendingRequest]) -> None:
        for request in requests:
            heapq.heappush(self._heap, (request.place, next(self._count), None, request.owner))

    def _pop(self) -> tuple[PendingRequest, Gate | None] | None:
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
