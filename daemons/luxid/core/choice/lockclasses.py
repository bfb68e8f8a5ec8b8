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
    """The jobs with equal needs."""

    needs: Needs
    # by level, how many of the names clash
    _counts: dict[int, int] = attrs.field(factory=dict)
    # one bit a level: at least one clashes
    clashes: int = 0
    # of the picker: the `clashes` by which the lanes have their places
    placed: int = 0
    # of the picker: the class's jobs, apart by what else divides them
    lanes: dict[Any, Any] = attrs.field(factory=dict)

    def count(self, place: int, step: int) -> None:
        """One name more or less clashes on a level."""
        self._counts[place] = count = self._counts.get(place, 0) + step
        self.clashes = self.clashes | 1 << place if count else self.clashes & ~(1 << place)


class LockClasses:
    """All classes that have queued jobs."""

    def __init__(self, footprints: Footprints) -> None:
        self._footprints = footprints
        self._classes: dict[Needs, LockClass] = {}
        # name -> classes that need it in shared, and in exclusive mode
        self._shared: dict[Name, dict[LockClass, None]] = {}
        self._exclusive: dict[Name, dict[LockClass, None]] = {}

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
                self._shared.setdefault(name, {})[found] = None
                if self._footprints.is_taken(name, exclusively=True):
                    found.count(name[0], 1)
            for name in needs.exclusive:
                self._exclusive.setdefault(name, {})[found] = None
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
            for lock_class in index.get(crossing.name, ()):
                lock_class.count(crossing.name[0], 1 if crossing.is_taken else -1)
                yield lock_class


def _unlist(index: dict[Name, dict[LockClass, None]], name: Name, lock_class: LockClass) -> None:
    classes = index[name]
    del classes[lock_class]
    if not classes:
        del index[name]
