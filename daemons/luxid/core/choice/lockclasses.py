"""Queued jobs by what locks they need: which of them clash by name with a running job.

The index leads from a name to the needs that have it; so a start or an end costs what concerns the locks of that job,
and needs of unknown or all locks cost nothing, as they name none.

Source: DESIGN section 6, "Weights".
"""

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from daemons.luxid.core.choice.footprints import Crossing, Footprints
from daemons.luxid.core.choice.needs import Name, Needs


@attrs.define(eq=False)
class LockClass:
    """The jobs with equal needs. There may be one for each job: so it has no dicts that most do not need."""

    needs: Needs
    # by level, how many of the names clash; None: none does
    _counts: dict[int, int] | None = None
    # one bit a level: at least one clashes
    clashes: int = 0
    # of the picker: the `clashes` by which the lanes have their places
    placed: int = 0
    # of the picker: the class's jobs, apart by what else divides them, which is their gate and priority; one lane
    # has no dict
    _lane: Any = None
    _lanes: dict[tuple[Any, int], Any] | None = None

    def count(self, place: int, step: int) -> None:
        """One name more or less clashes on a level."""
        counts = self._counts if self._counts is not None else {}
        counts[place] = count = counts.get(place, 0) + step
        self.clashes = self.clashes | 1 << place if count else self.clashes & ~(1 << place)
        self._counts = counts if self.clashes else None

    @property
    def lanes(self) -> tuple[Any, ...]:
        if self._lanes is not None:
            return tuple(self._lanes.values())
        return (self._lane,) if self._lane is not None else ()

    def find_lane(self, gate: Any, priority: int) -> Any:
        """None: there is none."""
        if self._lanes is not None:
            return self._lanes.get((gate, priority))
        only = self._lane
        return only if only is not None and only.gate is gate and only.priority == priority else None

    def add_lane(self, lane: Any) -> None:
        """One of a gate and priority that has none."""
        if self._lanes is None and self._lane is None:
            self._lane = lane
            return
        if self._lanes is None:
            self._lanes = {(self._lane.gate, self._lane.priority): self._lane}
            self._lane = None
        self._lanes[lane.gate, lane.priority] = lane

    def drop_lane(self, lane: Any) -> None:
        if self._lanes is None:
            self._lane = None
            return
        del self._lanes[lane.gate, lane.priority]
        if not self._lanes:
            self._lanes = None


# a name that one class has needs no dict
_Index = dict[Name, LockClass | dict[LockClass, None]]


class LockClasses:
    """All classes that have queued jobs."""

    def __init__(self, footprints: Footprints) -> None:
        self._footprints = footprints
        self._classes: dict[Needs, LockClass] = {}
        # name -> classes that need it in shared, and in exclusive mode
        self._shared: _Index = {}
        self._exclusive: _Index = {}

    def __len__(self) -> int:
        return len(self._classes)

    def __iter__(self) -> Iterator[LockClass]:
        return iter(self._classes.values())

    def find(self, needs: Needs) -> LockClass:
        """The class of these needs; made if there is none."""
        found = self._classes.get(needs)
        if found is None:
            found = self._classes[needs] = LockClass(needs)
            for name in needs.shared:
                _list(self._shared, name, found)
                if self._footprints.is_taken(name, exclusively=True):
                    found.count(name[0], 1)
            for name in needs.exclusive:
                _list(self._exclusive, name, found)
                if self._footprints.is_taken(name, exclusively=False):
                    found.count(name[0], 1)
            found.placed = found.clashes
        return found

    def drop(self, lock_class: LockClass) -> None:
        """The class has no queued jobs any more."""
        del self._classes[lock_class.needs]
        for name in lock_class.needs.shared:
            _unlist(self._shared, name, lock_class)
        for name in lock_class.needs.exclusive:
            _unlist(self._exclusive, name, lock_class)

    def concerned(self, crossings: Iterable[Crossing]) -> Iterator[LockClass]:
        """The classes that need one of these names in a mode that clashes; their `clashes` is right by then.

        Cost: linear in the answer.
        """
        for crossing in crossings:
            index = self._shared if crossing.is_exclusive else self._exclusive
            there = index.get(crossing.name, ())
            for lock_class in (there,) if isinstance(there, LockClass) else there:
                lock_class.count(crossing.name[0], 1 if crossing.is_taken else -1)
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
