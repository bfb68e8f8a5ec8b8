"""A request that waits, and what it would keep others from.

Source: wconfd.md 5.3.
"""

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import attrs

from common.asciijson import ascii_json
from common.locks import Lock, LockMode, LockRequest, Owner

Place = tuple[int, tuple[bool, int, str, str]]


class Standing(enum.Enum):
    """Where an owner's request stands; the theory is in `waiting`."""

    # its owner waits for nothing
    NONE = "no request"
    PARKED = "parked at a gate"
    BEHIND = "held back"


_ENDS: Final = {
    "granted: the last of what kept it out has gone": Standing.NONE,
    "given up, or its owner has died": Standing.NONE,
}
# standing -> what can happen -> standing; a request that is granted at once, or refused, never waits
STANDINGS: Final[Mapping[Standing, Mapping[str, Standing]]] = {
    Standing.NONE: {
        "asked, and a holder is in the way": Standing.PARKED,
        "asked, no holder is in the way but an overdue request": Standing.BEHIND,
    },
    Standing.PARKED: {
        **_ENDS,
        "its gate opens, another one is shut": Standing.PARKED,
        "its gate opens, an overdue request goes first": Standing.BEHIND,
    },
    Standing.BEHIND: {
        **_ENDS,
        "the overdue request has gone, another one goes first": Standing.BEHIND,
        "the overdue request has gone, a gate is shut": Standing.PARKED,
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
