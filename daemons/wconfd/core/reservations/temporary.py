"""Temporary reservations: what is taken although the configuration does not say so yet.

A job that makes an instance takes its MACs, addresses, volumes, secrets and minors one by one,
and writes the instance at the end. Till then a reservation keeps others away; after it the
configuration does. So a new thing must be free in both. All but minors have an owner, and are
dropped at the end of its opcode, or at its death; minors belong to a disk.

Source: wconfd.md 2.4.
"""

from collections.abc import Callable
from typing import Final

import attrs
from immutables import Map

from common.locks import Owner
from common.objects.kinds import DiskUuid, NodeUuid
from daemons.wconfd.core.reservations.claims import Claims
from daemons.wconfd.core.reservations.ipnotes import IpNote

Minors = Map[NodeUuid, Map[int, DiskUuid]]
_NO_MINORS: Final[Map[int, DiskUuid]] = Map()


@attrs.frozen
class Reservations:
    """A value; start from `Reservations()`."""

    # MACs in lower case
    macs: Claims[str] = attrs.field(factory=Claims)
    secrets: Claims[str] = attrs.field(factory=Claims)
    # volumes as "volume group/volume"
    volumes: Claims[str] = attrs.field(factory=Claims)
    ips: Claims[IpNote] = attrs.field(factory=Claims)
    # minors by node; no empty table
    minors: Minors = attrs.field(factory=Map)

    def owners(self) -> frozenset[Owner]:
        """All owners that have reserved anything. Cost: O(owners)."""
        return frozenset().union(*(claims.owners() for claims in self._claims()))

    def has(self, owner: Owner) -> bool:
        return any(claims.of(owner) for claims in self._claims())

    def without_owner(self, owner: Owner) -> "Reservations":
        """Without all that an owner has reserved; the very same if that is nothing."""
        if not self.has(owner):
            return self
        return attrs.evolve(
            self,
            macs=self.macs.without(owner),
            secrets=self.secrets.without(owner),
            volumes=self.volumes.without(owner),
            ips=self.ips.without(owner),
        )

    def with_minor(self, node: NodeUuid, minor: int, disk: DiskUuid) -> "Reservations":
        """The caller guarantees that the minor is free."""
        taken = self.minors.get(node, _NO_MINORS)
        return attrs.evolve(self, minors=self.minors.set(node, taken.set(minor, disk)))

    def without_minors(self, *disks: str) -> "Reservations":
        """Without the minors of these disks; the very same if there are none. Cost: O(minors)."""
        return self.with_minors_that(lambda _, __, disk: disk not in disks)

    def with_minors_that(self, may_stay: Callable[[NodeUuid, int, DiskUuid], bool]) -> "Reservations":
        """With only some of the minors; the very same if these are all. Cost: O(minors)."""
        minors = self.minors
        for node, taken in self.minors.items():
            kept = Map((minor, disk) for minor, disk in taken.items() if may_stay(node, minor, disk))
            if len(kept) != len(taken):
                minors = minors.set(node, kept) if kept else minors.delete(node)
        return self if minors is self.minors else attrs.evolve(self, minors=minors)

    def _claims(self) -> tuple[Claims[str] | Claims[IpNote], ...]:
        return (self.macs, self.secrets, self.volumes, self.ips)
