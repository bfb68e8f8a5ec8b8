"""Claims: resources of one kind that owners have taken, each by one owner at most."""

from collections.abc import Iterator
from typing import Generic, TypeVar

import attrs
from immutables import Map

from common.errors import ReservationError
from common.locks import Owner

R = TypeVar("R")


@attrs.frozen
class Claims(Generic[R]):
    """A value; start from `Claims()`. All costs are O(1), but where it says more."""

    # resources of each owner; no empty set
    _of: Map[Owner, frozenset[R]] = attrs.field(factory=Map)
    # owner of each resource; derived
    _owners: Map[R, Owner] = attrs.field(factory=Map, eq=False, repr=False)

    def __contains__(self, resource: object) -> bool:
        return resource in self._owners

    def of(self, owner: Owner) -> frozenset[R]:
        return self._of.get(owner, frozenset())

    def owners(self) -> frozenset[Owner]:
        """Cost: O(owners)."""
        return frozenset(self._of)

    def rows(self) -> Iterator[tuple[Owner, frozenset[R]]]:
        """Every owner with what it has, in owner order."""
        return iter(sorted(self._of.items(), key=lambda row: row[0].sort_key()))

    def with_claim(self, owner: Owner, resource: R) -> "Claims[R]":
        """Raises: ReservationError: it is reserved, maybe by this very owner."""
        if (holder := self._owners.get(resource)) is not None:
            raise ReservationError(
                f"'{resource}' is reserved by {holder}; choose another, or wait until it is dropped",
                owner=str(holder),
            )
        return Claims(self._of.set(owner, self.of(owner) | {resource}), self._owners.set(resource, owner))

    def without(self, owner: Owner) -> "Claims[R]":
        """Without all of an owner's. Cost: O(what it has)."""
        if owner not in self._of:
            return self
        owners = self._owners
        for resource in self._of[owner]:
            owners = owners.delete(resource)
        return Claims(self._of.delete(owner), owners)
