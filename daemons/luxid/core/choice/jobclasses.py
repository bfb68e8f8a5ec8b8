"""The nested classes into which ready jobs are sorted; `pick` has the theory.

Each is a heap with lazy deletion: a key that no longer counts is not searched for, but dropped once it is on top.

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
class Admission:
    """Whether filters pause a job, and the limits it counts against; equal for all jobs of an admission class."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()


# one object each for most jobs: they are compared often
_OPEN: Final = Admission()
_PAUSED: Final = Admission(is_paused=True)


def admission_of(limits: tuple[Limit, ...], *, is_paused: bool) -> Admission:
    """The admission of a job, one object for most."""
    if limits:
        return Admission(is_paused, limits)
    return _PAUSED if is_paused else _OPEN


@attrs.define(eq=False)
class AdmissionClass:
    key: Admission
    # limits that are full, plus one if paused; open at zero
    closed_by: int
    partitions: "dict[WeightClass, Partition]" = attrs.field(factory=dict)


@attrs.define(eq=False)
class LazyHeap:
    """Keys of which some still count, and the smallest of them."""

    # class of each ready job, as it is now
    _class_of: "dict[JobId, JobClass]"
    # number of keys that can count at once
    size: int = attrs.field(default=0, init=False)
    _keys: list[Key] = attrs.field(factory=list, init=False)

    def push(self, key: Key) -> None:
        """Add a key that counts.

        Cost: O(log n), amortised: to tidy up is as rare as it is long; memory follows the size.
        """
        heappush(self._keys, key)
        if len(self._keys) > 2 * self.size + _SLACK:
            # a sorted list is a heap
            self._keys = sorted(self.valid_keys())

    def first(self) -> Key | None:
        """The smallest key that counts."""
        while self._keys and not self._is_valid(self._keys[0]):
            heappop(self._keys)
        return self._keys[0] if self._keys else None

    def valid_keys(self) -> set[Key]:
        """All keys that count. Cost: linear."""
        return {key for key in self._keys if self._is_valid(key)}

    def _is_valid(self, key: Key) -> bool:
        raise NotImplementedError


@attrs.define(eq=False)
class WeightClass(LazyHeap):
    priority: int
    shape: Shape
    clashes: int
    # the static weight, and the epoch for which it is so
    weight: float = attrs.field(default=0.0, init=False)
    epoch: int = attrs.field(default=-1, init=False)

    def _is_valid(self, key: Key) -> bool:
        job_class = self._class_of.get(JobId(key[1]))
        return job_class is not None and job_class.partition.weight_class is self and job_class.partition.head == key


@attrs.define(eq=False)
class Partition(LazyHeap):
    admission: AdmissionClass
    weight_class: WeightClass
    # key that the weight class sees: None while the admission class is closed
    head: Key | None = attrs.field(default=None, init=False)

    def refresh(self) -> None:
        head = None if self.admission.closed_by else self.first()
        if head != self.head:
            self.head = head
            if head is not None:
                self.weight_class.push(head)

    def _is_valid(self, key: Key) -> bool:
        job_class = self._class_of.get(JobId(key[1]))
        return job_class is not None and job_class.partition is self and job_class.head == key


@attrs.define(eq=False)
class JobClass(LazyHeap):
    """Jobs of one priority and admission class with equal needs."""

    priority: int
    admission: AdmissionClass
    lock_class: LockClass
    partition: Partition
    head: Key | None = attrs.field(default=None, init=False)

    def refresh(self) -> None:
        head = self.first()
        if head != self.head:
            self.head = head
            if head is not None:
                self.partition.push(head)
            self.partition.refresh()

    def enter(self, partition: Partition) -> None:
        """Move from another partition into this one."""
        self.partition = partition
        if self.head is not None:
            partition.push(self.head)
        partition.refresh()

    def _is_valid(self, key: Key) -> bool:
        return self._class_of.get(JobId(key[1])) is self
