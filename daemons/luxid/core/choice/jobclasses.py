"""The nested classes into which ready jobs are sorted; the folder's docstring has the theory.

Each is a heap with lazy deletion: a key that no longer counts is not searched for, but dropped once it is on top.

Source: DESIGN section 6 (no event scans all jobs).
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final
from weakref import WeakValueDictionary

import attrs

from common.ids import JobId
from daemons.luxid.core.choice.limits import CountedUser, Limit
from daemons.luxid.core.choice.weights import Name, NameChange, Needs, NeedsShape, RunningLocks
from daemons.luxid.core.resources import Want, WantsGroup

# The admission of a job: what filters and limits say of its start.
#
# Source: luxid.md 5.5, 6.2.


@attrs.frozen(cache_hash=True)
class AdmissionTerms:
    """Whether filters pause a job, its limits, the units it wants and its user; equal in all of an admission class."""

    is_paused: bool = False
    limits: tuple[Limit, ...] = ()
    wants: tuple[Want, ...] = ()
    # whose bounds it is subject to; None: nobody's
    user: CountedUser | None = None
    # limits and wants: what keeps the job from starting while it is full, or short
    closers: tuple[Limit, ...] = attrs.field(init=False, eq=False, repr=False)

    @closers.default
    def _closers(self) -> tuple[Limit, ...]:
        return (*self.limits, *self.wants) if self.wants else self.limits


# admissions are shared while a job has them: every job has one, and they are compared often
_OPEN: Final = AdmissionTerms()
_PAUSED: Final = AdmissionTerms(is_paused=True)
_Key = tuple[bool, tuple[Limit, ...], tuple[Want, ...], CountedUser | None]
_LIMITED: Final[WeakValueDictionary[_Key, AdmissionTerms]] = WeakValueDictionary()


def admission_of(
    limits: tuple[Limit, ...], wants: tuple[Want, ...] = (), user: CountedUser | None = None, *, is_paused: bool
) -> AdmissionTerms:
    """The admission of a job, shared with all jobs that have an equal one."""
    if limits or wants or user is not None:
        key = (is_paused, limits, wants, user)
        return _LIMITED.get(key) or _LIMITED.setdefault(key, AdmissionTerms(*key))
    return _PAUSED if is_paused else _OPEN


# received tick, job id
Key = tuple[int, int]

_SLACK: Final = 16


@attrs.define(eq=False)
class AdmissionClass:
    key: AdmissionTerms
    # limits that are full, wants that are short, plus one if paused; open at zero
    closed_by: int
    # wants that are short
    short_by: int = 0
    # the jobs as waiters for units; None: they want none
    group: WantsGroup | None = None
    # number of jobs
    size: int = 0
    partitions: "dict[WeightClass, Partition]" = attrs.field(factory=dict)


@attrs.define(eq=False, weakref_slot=False)
class LockClass:
    """The jobs with equal needs. There may be one for each job: so it has nothing that most do not need."""

    needs: Needs
    # number of names that clash, by level; None: none does
    _clash_counts: dict[int, int] | None = None
    # bits of the levels on which at least one name clashes
    clashes: int = 0
    # `clashes` when the job classes were last filed
    filed_clashes: int = 0
    # job classes of these needs, by admission class and priority. A single one has no dict
    _job_class: "JobClass | None" = None
    _job_classes: "dict[tuple[AdmissionClass, int], JobClass] | None" = None

    def count(self, level_index: int, step: int) -> None:
        """Count one more or one less clash on a level."""
        counts = self._clash_counts if self._clash_counts is not None else {}
        counts[level_index] = count = counts.get(level_index, 0) + step
        self.clashes = self.clashes | 1 << level_index if count else self.clashes & ~(1 << level_index)
        self._clash_counts = counts if self.clashes else None

    @property
    def job_classes(self) -> "tuple[JobClass, ...]":
        if self._job_classes is not None:
            return tuple(self._job_classes.values())
        return (self._job_class,) if self._job_class is not None else ()

    def find_class(self, admission: AdmissionClass, priority: int) -> "JobClass | None":
        """None: there is none."""
        if self._job_classes is not None:
            return self._job_classes.get((admission, priority))
        only = self._job_class
        return only if only is not None and only.admission is admission and only.priority == priority else None

    def add_class(self, job_class: "JobClass") -> None:
        """One of an admission class and priority that has none."""
        if self._job_classes is None:
            only, self._job_class = self._job_class, None
            if only is None:
                self._job_class = job_class
                return
            self._job_classes = {(only.admission, only.priority): only}
        self._job_classes[job_class.admission, job_class.priority] = job_class

    def drop_class(self, job_class: "JobClass") -> None:
        if self._job_classes is None:
            self._job_class = None
            return
        del self._job_classes[job_class.admission, job_class.priority]
        if not self._job_classes:
            self._job_classes = None


@attrs.define(eq=False, weakref_slot=False)
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
        if not self._keys:
            # with room for no other, as most classes never have one
            self._keys = [key]
            return
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


@attrs.define(eq=False, weakref_slot=False)
class WeightClass(LazyHeap):
    priority: int
    shape: NeedsShape
    clashes: int
    user: CountedUser | None
    # the static weight, and the epoch for which it is so
    weight: float = attrs.field(default=0.0, init=False)
    epoch: int = attrs.field(default=-1, init=False)

    def _is_valid(self, key: Key) -> bool:
        job_class = self._class_of.get(JobId(key[1]))
        return job_class is not None and job_class.partition.weight_class is self and job_class.partition.head == key


@attrs.define(eq=False, weakref_slot=False)
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


@attrs.define(eq=False, weakref_slot=False)
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


# a name that one class has needs no dict
_Index = dict[Name, LockClass | dict[LockClass, None]]


class LockClasses:
    """All lock classes that have ready jobs, found by a name that they need."""

    def __init__(self, running_locks: RunningLocks) -> None:
        self._running_locks = running_locks
        self._classes: dict[Needs, LockClass] = {}
        # name -> classes that need it in shared, and in exclusive mode
        self._shared: _Index = {}
        self._exclusive: _Index = {}

    def __len__(self) -> int:
        return len(self._classes)

    def __iter__(self) -> Iterator[LockClass]:
        return iter(self._classes.values())

    def find(self, needs: Needs) -> LockClass:
        """Return the class of these needs; made if there is none."""
        found = self._classes.get(needs)
        if found is None:
            found = self._classes[needs] = LockClass(needs)
            for name in needs.shared:
                _list(self._shared, name, found)
                if self._running_locks.is_taken(name, exclusively=True):
                    found.count(name[0], 1)
            for name in needs.exclusive:
                _list(self._exclusive, name, found)
                if self._running_locks.is_taken(name, exclusively=False):
                    found.count(name[0], 1)
            found.filed_clashes = found.clashes
        return found

    def drop(self, lock_class: LockClass) -> None:
        """Forget a class that has no ready jobs any more."""
        del self._classes[lock_class.needs]
        for name in lock_class.needs.shared:
            _unlist(self._shared, name, lock_class)
        for name in lock_class.needs.exclusive:
            _unlist(self._exclusive, name, lock_class)

    def concerned(self, changes: Iterable[NameChange]) -> Iterator[LockClass]:
        """Yield the classes that need one of these names in a mode that clashes, with `clashes` brought up to date.

        Cost: linear in the classes returned.
        """
        for change in changes:
            index = self._shared if change.is_exclusive else self._exclusive
            there = index.get(change.name, ())
            for lock_class in (there,) if isinstance(there, LockClass) else there:
                lock_class.count(change.name[0], 1 if change.is_taken else -1)
                yield lock_class


def _list(index: _Index, name: Name, lock_class: LockClass) -> None:
    there = index.get(name)
    if there is None:
        index[name] = lock_class
    elif isinstance(there, LockClass):
        index[name] = {there: None, lock_class: None}
    else:
        there[lock_class] = None


def _unlist(index: _Index, name: Name, lock_class: LockClass) -> None:
    there = index[name]
    if isinstance(there, dict):
        del there[lock_class]
    if not there or there is lock_class:
        del index[name]
