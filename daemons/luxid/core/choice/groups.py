"""The nested groups in which ready jobs are kept; `pick` has the theory.

Each group is a heap that forgets lazily: what leaves it is not searched for, but dropped when it comes to the top.

Source: DESIGN section 6 (no event scans all jobs).
"""

from heapq import heappop, heappush
from typing import Final

import attrs

from common.ids import JobId
from daemons.luxid.core.choice.lockclasses import LockClass
from daemons.luxid.core.choice.needs import Shape
from daemons.luxid.core.choice.ratelimit import Limit

# received tick, job id
Key = tuple[int, int]

_SLACK: Final = 16


@attrs.frozen(cache_hash=True)
class GateKey:
    """What the filters and limits say about a job; equal for all behind one gate."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()


# one object each for most jobs: they are compared often
_OPEN: Final = GateKey()
_PAUSED: Final = GateKey(is_paused=True)


def gate_key(limits: tuple[Limit, ...], *, is_paused: bool) -> GateKey:
    """The key of a gate."""
    if limits:
        return GateKey(is_paused, limits)
    return _PAUSED if is_paused else _OPEN


@attrs.define(eq=False)
class Gate:
    key: GateKey
    # limits that are full, plus one if paused; open at zero
    bars: int
    pools: "dict[Cell, Pool]" = attrs.field(factory=dict)


@attrs.define(eq=False)
class Heads:
    """Keys of which some still count, and the smallest of them."""

    # where each ready job is now
    _lanes: "dict[JobId, Lane]"
    # members of this group: keys that can count at once
    members: int = attrs.field(default=0, init=False)
    _keys: list[Key] = attrs.field(factory=list, init=False)

    def offer(self, key: Key) -> None:
        """Add a key that counts.

        Cost: O(log n), amortised: to tidy up is as rare as it is long; memory follows the members.
        """
        heappush(self._keys, key)
        if len(self._keys) > 2 * self.members + _SLACK:
            # a sorted list is a heap
            self._keys = sorted(self.living())

    def first(self) -> Key | None:
        """The smallest key that counts."""
        while self._keys and not self._counts(self._keys[0]):
            heappop(self._keys)
        return self._keys[0] if self._keys else None

    def living(self) -> set[Key]:
        """All keys that count. Cost: linear."""
        return {key for key in self._keys if self._counts(key)}

    def _counts(self, key: Key) -> bool:
        raise NotImplementedError


@attrs.define(eq=False)
class Cell(Heads):
    priority: int
    shape: Shape
    clashes: int
    # the static weight, and the epoch for which it is so
    weight: float = attrs.field(default=0.0, init=False)
    epoch: int = attrs.field(default=-1, init=False)

    def _counts(self, key: Key) -> bool:
        lane = self._lanes.get(JobId(key[1]))
        return lane is not None and lane.pool.cell is self and lane.pool.head == key


@attrs.define(eq=False)
class Pool(Heads):
    gate: Gate
    cell: Cell
    # as the cell sees it: None while the gate is shut
    head: Key | None = attrs.field(default=None, init=False)

    def refresh(self) -> None:
        head = None if self.gate.bars else self.first()
        if head != self.head:
            self.head = head
            if head is not None:
                self.cell.offer(head)

    def _counts(self, key: Key) -> bool:
        lane = self._lanes.get(JobId(key[1]))
        return lane is not None and lane.pool is self and lane.head == key


@attrs.define(eq=False)
class Lane(Heads):
    """One scheduling class: jobs of one priority and gate with equal needs."""

    priority: int
    gate: Gate
    locks: LockClass
    pool: Pool
    head: Key | None = attrs.field(default=None, init=False)

    def refresh(self) -> None:
        head = self.first()
        if head != self.head:
            self.head = head
            if head is not None:
                self.pool.offer(head)
            self.pool.refresh()

    def enter(self, pool: Pool) -> None:
        """Be in this pool and no longer in another."""
        self.pool = pool
        if self.head is not None:
            pool.offer(self.head)
        pool.refresh()

    def _counts(self, key: Key) -> bool:
        return self._lanes.get(JobId(key[1])) is self
