"""Bounded bypass: an owner that waits for an exclusive lock is not passed for ever by owners that share it.

Theory. By itself a pending request reserves nothing, so a stream of shared grants may keep an exclusive
request waiting without end. With this rule a pending request counts the *passes*: shared grants, made
to others since it was queued, of what it wants exclusively. When they are `max_bypass` it is *ripe*. A
ripe request is *overdue*, unless it conflicts with one that is overdue already; then it becomes so in its
turn, the first that was ripe first. So no two overdue requests conflict. An overdue request holds others
back: an owner that asks for anything in conflict with its items waits for it, as if it held them. It does not hold
back

* requests covered by a lock that their owner holds already,
* and owners that hold a lock at or after its *floor*: the first gate that is shut for it.

The bound: while nothing overdue conflicts with it, a request is passed at most `max_bypass` times, not
counting owners that hold something at or after its floor. No owner passes an overdue request at its floor or before
it, so the floor only rises, and is gone after as many turns of holders as the request has locks.

Why no ring of waits comes of it. Write top(o) for the greatest lock that o holds. An owner that waits for a holder
at a gate waits for one whose top lies at the gate or after it, and the gate lies after its own top (an upgrade
aside, see `rings`). An owner that is held back waits for an overdue request, which waits for holders only, at
its floor or after it. So two steps on stands an owner whose top is not before the floor, while its own top is: that
is what the second exception is for. Thus each step, or two, leads to a greater top, and no way leads back. It would
not do to exempt the owners for which the overdue request waits directly: they may in turn wait for an owner that
holds a later lock and is held back.

An orphan (`orphanedlocks`) may hold its locks for hours. An overdue request that waits for one holds nobody back
meanwhile, or everything that it wants would stand still; others pass it then, without a bound. When one comes, the
requests behind such an overdue one are tried again, so that none is behind it.

Counts are not stored. A request that no holder keeps out, and that is yet pending in `locks.data`, was held back by an
overdue one, which is assumed to be overdue again after a restart (`lockstate`). All other counts begin anew, so a
restart may cost a request some more passes and nothing else: safety does not rest on the counts.

Without a bound all of this is empty, and the behaviour is exactly Ganeti's (wconfd.md 5.3).
"""

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import attrs
from immutables import Map

from common.jsontext import ascii_json
from common.locks import Lock, LockMode, LockRequest, Owner
from daemons.wconfd.core.locks.table import LockTable, gates_of

# A request that waits, and what it would keep others from.
#
# Source: wconfd.md 5.3.


Place = tuple[int, tuple[bool, int, str, str]]


class RequestStatus(enum.Enum):
    """Where an owner's request stands; the theory is in `waiting`."""

    # its owner waits for nothing
    NONE = "no request"
    PARKED = "parked at a gate"
    BEHIND = "held back"


_ENDS: Final = {
    "granted: the last of what kept it out has gone": RequestStatus.NONE,
    "given up, or its owner has died": RequestStatus.NONE,
}
# standing -> what can happen -> standing; a request that is granted at once, or refused, never waits
STANDINGS: Final[Mapping[RequestStatus, Mapping[str, RequestStatus]]] = {
    RequestStatus.NONE: {
        "asked, and a holder is in the way": RequestStatus.PARKED,
        "asked, no holder is in the way but an overdue request": RequestStatus.BEHIND,
    },
    RequestStatus.PARKED: {
        **_ENDS,
        "its gate opens, another one is shut": RequestStatus.PARKED,
        "its gate opens, an overdue request goes first": RequestStatus.BEHIND,
    },
    RequestStatus.BEHIND: {
        **_ENDS,
        "the overdue request has gone, another one goes first": RequestStatus.BEHIND,
        "the overdue request has gone, a gate is shut": RequestStatus.PARKED,
    },
}


@attrs.frozen
class PendingRequest:
    """A request that waits."""

    # priority of the owner: smaller is more urgent
    priority: int
    owner: Owner
    # items as they were asked: order and repetitions count when the request is repeated
    requests: tuple[LockRequest, ...]

    @cached_property
    def place(self) -> Place:
        """Where it stands in the order of trial; unique, as an owner has one pending request."""
        return (self.priority, self.owner.sort_key())

    @cached_property
    def row(self) -> bytes:
        """Its row of `locks.data`, made at most once."""
        return ascii_json([self.priority, self.owner.to_wire(), [request.to_wire() for request in self.requests]])

    @cached_property
    def claims(self) -> Mapping[tuple[Lock, bool], LockMode]:
        """Place -> the strongest mode wanted there; a place is a lock, or the members of a group lock."""
        claims: dict[tuple[Lock, bool], LockMode] = {}
        for request in self.requests:
            lock, group = request.lock, request.lock.group
            for place in [(lock, False), (group, True)] if group else [(lock, False)]:
                if request.mode is not None and claims.get(place) is not LockMode.EXCLUSIVE:
                    claims[place] = request.mode
        return claims

    @cached_property
    def modes(self) -> Mapping[Lock, LockMode]:
        """What is asked for, without releases."""
        return {request.lock: request.mode for request in self.requests if request.mode is not None}

    @cached_property
    def exclusive_places(self) -> tuple[tuple[Lock, bool], ...]:
        return tuple(place for place, mode in self.claims.items() if mode is LockMode.EXCLUSIVE)

    def conflicts_with(self, modes: Mapping[Lock, LockMode]) -> bool:
        """Whether two owners could not have both this and `modes`. Cost: O(modes)."""
        return any(
            mode.excludes(self.claims[place])
            for lock, mode in modes.items()
            for place in places_of(lock)
            if place in self.claims
        )


def places_of(lock: Lock) -> tuple[tuple[Lock, bool], ...]:
    """The places at which others' claims touch this lock: itself, its group, and its members."""
    if lock.group is not None:
        return ((lock, False), (lock.group, False))
    return ((lock, False), (lock, True)) if lock.is_group else ((lock, False),)


_NO_PASSES: Final[Map[Owner, int]] = Map()
_NO_OVERDUE: Final[Map[Owner, PendingRequest]] = Map()
_NO_INDEX: Final[Map[tuple[Lock, bool], Map[Owner, PendingRequest]]] = Map()
_NOBODY: Final[Map[Owner, PendingRequest]] = Map()


@attrs.frozen
class Fairness:
    """The passes of all pending requests: a value. `Fairness()` is without a bound."""

    # greatest number of passes; None: there is no bound
    max_bypass: int | None = None
    # passes of every pending request that wants something exclusively
    _passes: Map[Owner, int] = _NO_PASSES
    # overdue requests by owner; no two of them conflict
    overdue: Map[Owner, PendingRequest] = _NO_OVERDUE
    # requests passed often enough, but not overdue, in the order in which they became ripe
    _ripe: tuple[PendingRequest, ...] = ()
    # place -> the pending requests that want it exclusively; no empty entry
    _wanted: Map[tuple[Lock, bool], Map[Owner, PendingRequest]] = _NO_INDEX

    def entered(self, request: PendingRequest) -> "Fairness":
        """Return the state with one more pending request, not passed yet."""
        if self.max_bypass is None or not request.exclusive_places:
            return self
        wanted = self._wanted.mutate()
        for place in request.exclusive_places:
            wanted[place] = wanted.get(place, _NOBODY).set(request.owner, request)
        after = attrs.evolve(self, passes=self._passes.set(request.owner, 0), wanted=wanted.finish())
        return after if self.max_bypass else after._ripened([request])

    def left(self, request: PendingRequest) -> "Fairness":
        """Without a request that is pending no longer; others may become overdue in its place."""
        if request.owner not in self._passes:
            return self
        wanted = self._wanted.mutate()
        for place in request.exclusive_places:
            others = wanted[place].delete(request.owner)
            if others:
                wanted[place] = others
            else:
                del wanted[place]
        after = attrs.evolve(self, passes=self._passes.delete(request.owner), wanted=wanted.finish())
        if request.owner in self.overdue:
            return attrs.evolve(after, overdue=self.overdue.delete(request.owner))._ripened([])
        return attrs.evolve(after, ripe=tuple(each for each in self._ripe if each.owner != request.owner))

    def passed(self, shared: Iterable[Lock]) -> "Fairness":
        """Return the state after a grant of these locks, shared; the owner granted is pending no longer.

        Cost: O(requests passed); most are passed `max_bypass` times at most.
        """
        passed = {
            owner: request
            for lock in shared
            for place in places_of(lock)
            for owner, request in self._wanted.get(place, _NOBODY).items()
        }
        if not passed:
            return self
        passes = self._passes.mutate()
        for owner in passed:
            passes[owner] += 1
        after = attrs.evolve(self, passes=passes.finish())
        ripe = [request for owner, request in passed.items() if after._passes[owner] == self.max_bypass]
        return after._ripened(sorted(ripe, key=lambda request: request.place)) if ripe else after

    def ahead_of(
        self, table: LockTable, owner: Owner, requests: Sequence[LockRequest], orphans: Collection[Owner] = ()
    ) -> list[Owner]:
        """The overdue owners that hold this request back, in owner order. Cost: O(overdue requests)."""
        if not self.overdue or owner in self.overdue:
            return []
        found = _holding_back(self.overdue.values(), table, owner, requests)
        return sorted(
            (request.owner for request in found if not _waits_for(table, request, orphans)), key=Owner.sort_key
        )

    def waiting_for(self, table: LockTable, orphans: Collection[Owner]) -> list[Owner]:
        """The overdue owners that wait for an orphan, in owner order. Cost: O(overdue requests)."""
        found = (request.owner for request in self.overdue.values() if _waits_for(table, request, orphans))
        return sorted(found, key=Owner.sort_key)

    def assuming_overdue(
        self, table: LockTable, owner: Owner, requests: Sequence[LockRequest], orphans: Collection[Owner] = ()
    ) -> "Fairness":
        """Mark as overdue the pending request that must have held this one back, since no holder blocks it.

        As far as can be known: one that is pending, and conflicts with no overdue request.

        Cost: O(pending requests).
        """
        if self.max_bypass is None or self.ahead_of(table, owner, requests, orphans):
            return self
        pending = {other: request for others in self._wanted.values() for other, request in others.items()}
        found = sorted(_holding_back(pending.values(), table, owner, requests), key=lambda request: request.place)
        able = (request for request in found if not _waits_for(table, request, orphans))
        possible = [request for request in able if not self._conflicts_with_overdue(request)]
        return self._ripened(possible[:1])

    def _ripened(self, requests: Iterable[PendingRequest]) -> "Fairness":
        """Add these behind the requests that were ripe before; those that can be overdue now become so."""
        after, left = self, []
        for request in (*self._ripe, *requests):
            if after._conflicts_with_overdue(request):
                left.append(request)
            else:
                after = attrs.evolve(after, overdue=after.overdue.set(request.owner, request))
        return attrs.evolve(after, ripe=tuple(left))

    def _conflicts_with_overdue(self, request: PendingRequest) -> bool:
        return any(other.conflicts_with(request.modes) for other in self.overdue.values())


def _holding_back(
    candidates: Iterable[PendingRequest], table: LockTable, owner: Owner, requests: Sequence[LockRequest]
) -> list[PendingRequest]:
    """Those of the candidates that hold this request back when they are overdue."""
    asked = _uncovered(table, owner, requests)
    top = table.greatest_of(owner)
    return [
        request
        for request in candidates
        if request.owner != owner
        and request.conflicts_with(asked)
        and (top is None or _is_before_floor(table, top, request))
    ]


def _waits_for(table: LockTable, request: PendingRequest, orphans: Collection[Owner]) -> bool:
    if not orphans:
        return False
    walls = (table.wall(gate) for gate in gates_of(request.requests))
    return any(orphan in wall for wall in walls if wall for orphan in orphans if orphan != request.owner)


def _uncovered(table: LockTable, owner: Owner, requests: Iterable[LockRequest]) -> dict[Lock, LockMode]:
    """What is asked beyond what the owner has, by the locks themselves or their groups."""
    held = table.modes_of(owner)
    asked: dict[Lock, LockMode] = {}
    for request in requests:
        covers = (held.get(lock) for lock in (request.lock, request.lock.group) if lock)
        if request.mode is not None and not any(cover and cover.covers(request.mode) for cover in covers):
            asked[request.lock] = request.mode
    return asked


def _is_before_floor(table: LockTable, top: Lock, request: PendingRequest) -> bool:
    """Whether all gates that are shut for the request lie after `top`."""
    return all(top < gate.lock for gate in gates_of(request.requests) if table.is_shut(gate, request.owner))
