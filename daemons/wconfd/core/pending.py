"""The pending requests, each parked at a gate that is shut for it, and the table they wait for.

Invariant between calls: each pending request breaks no rule, and the gate where it is parked is
shut for it. (Its owner cannot change its holdings without losing the request, so a rule that held
when it was queued still holds.) The theory is in `core.waiting`.
"""

from bisect import bisect_left
from functools import cached_property
from typing import Final

import attrs
from immutables import Map

from common.asciijson import ascii_json
from common.locks import LockRequest, Owner
from daemons.wconfd.core.table import Gate, LockTable

Place = tuple[int, tuple[bool, int, str, str]]


@attrs.frozen
class PendingRequest:
    """A request that waits."""

    # smaller is more urgent
    priority: int
    owner: Owner
    # as they were asked: order and repetitions count when the request is repeated
    requests: tuple[LockRequest, ...]

    @cached_property
    def place(self) -> Place:
        """Where it stands in the order of trial; unique, as an owner has one pending request."""
        return (self.priority, self.owner.sort_key())

    @cached_property
    def row(self) -> bytes:
        """Its row of `locks.data`, made at most once."""
        return ascii_json([self.priority, self.owner.to_wire(), [request.to_wire() for request in self.requests]])


@attrs.frozen
class _Parked:
    request: PendingRequest
    gate: Gate = attrs.field(eq=False)


_NOTHING_PARKED: Final[Map[Owner, _Parked]] = Map()
_NO_QUEUES: Final[Map[Gate, tuple[PendingRequest, ...]]] = Map()


@attrs.frozen
class LockState:
    """Who holds and who waits: a value. Start from `LockState()`."""

    table: LockTable = attrs.field(factory=LockTable)
    _parked: Map[Owner, _Parked] = _NOTHING_PARKED
    # derived: for each gate whoever is parked there, in order; no empty queue
    _queues: Map[Gate, tuple[PendingRequest, ...]] = attrs.field(default=_NO_QUEUES, eq=False, repr=False)

    def pending_of(self, owner: Owner) -> PendingRequest | None:
        parked = self._parked.get(owner)
        return parked.request if parked else None

    def knows(self, owner: Owner) -> bool:
        """Whether the owner holds or waits. Cost: O(1)."""
        return owner in self._parked or bool(self.table.modes_of(owner))

    def all_pending(self) -> tuple[PendingRequest, ...]:
        """Every pending request, in order of trial: (priority, owner)."""
        return tuple(sorted((parked.request for parked in self._parked.values()), key=lambda request: request.place))

    def owners(self) -> frozenset[Owner]:
        """Everybody who holds or waits."""
        waiting = frozenset(parked.request.owner for parked in self._parked.values())
        return frozenset(self.table.owners()) | waiting

    def with_table(self, table: LockTable) -> "LockState":
        """The same requests over another table, in which every parked one's gate is shut too."""
        return LockState(table, self._parked, self._queues)

    def parked(self, request: PendingRequest, gate: Gate) -> "LockState":
        """With this request pending at `gate`, which is shut for it; its owner has no other."""
        queue = self._queues.get(gate, ())
        at = bisect_left(queue, request.place, key=_place)
        queues = self._queues.set(gate, (*queue[:at], request, *queue[at:]))
        return LockState(self.table, self._parked.set(request.owner, _Parked(request, gate)), queues)

    def without_pending(self, owner: Owner) -> "LockState":
        """Without the owner's pending request, if there is one. As it reserves nothing, nobody gains by it."""
        parked = self._parked.get(owner)
        if parked is None:
            return self
        queue = self._queues[parked.gate]
        at = bisect_left(queue, parked.request.place, key=_place)
        left = (*queue[:at], *queue[at + 1 :])
        queues = self._queues.set(parked.gate, left) if left else self._queues.delete(parked.gate)
        return LockState(self.table, self._parked.delete(owner), queues)

    def first_let_through(self, gate: Gate) -> PendingRequest | None:
        """The first request parked at this gate for which it is no longer shut. Cost: O(1)."""
        queue = self._queues.get(gate)
        wall = self.table.wall(gate)
        if queue is None or len(wall) > 1:
            return None
        if not wall:
            return queue[0]
        own = self._parked.get(next(iter(wall)))
        return own.request if own and own.gate == gate else None


def _place(request: PendingRequest) -> Place:
    return request.place
