"""Queued jobs by what locks they need: which of them clash by name with a running job.

The index leads from a name to the needs that have it; so a start or an end costs what concerns the locks of that job,
and needs of unknown or all locks cost nothing, as they name none.

Source: DESIGN section 6, "Weights".
"""

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from daemons.luxid.core.choice.needs import Name, Needs
from daemons.luxid.core.choice.runninglocks import NameChange, RunningLocks


@attrs.define(eq=False)
class LockClass:
    """The jobs with equal needs. There may be one for each job: so it has no dicts that most do not need."""

    needs: Needs
    # by level, how many of the names clash; None: none does
    _clash_counts: dict[int, int] | None = None
    # one bit a level: at least one clashes
    clashes: int = 0
    # `clashes` when the picker last filed the job classes
    filed_clashes: int = 0
    # job classes of these needs, by admission class and priority; written by the picker. A single one has no dict
    _job_class: Any = None
    _job_classes: dict[tuple[Any, int], Any] | None = None

    def count(self, level_index: int, step: int) -> None:
        """One name more or less clashes on a level."""
        counts = self._clash_counts if self._clash_counts is not None else {}
        counts[level_index] = count = counts.get(level_index, 0) + step
        self.clashes = self.clashes | 1 << level_index if count else self.clashes & ~(1 << level_index)
        self._clash_counts = counts if self.clashes else None

    @property
    def job_classes(self) -> tuple[Any, ...]:
        if self._job_classes is not None:
            return tuple(self._job_classes.values())
        return (self._job_class,) if self._job_class is not None else ()

    def find_class(self, admission: Any, priority: int) -> Any:
        """None: there is none."""
        if self._job_classes is not None:
            return self._job_classes.get((admission, priority))
        only = self._job_class
        return only if only is not None and only.admission is admission and only.priority == priority else None

    def add_class(self, job_class: Any) -> None:
        """One of an admission class and priority that has none."""
        if self._job_classes is None and self._job_class is None:
            self._job_class = job_class
            return
        if self._job_classes is None:
            self._job_classes = {(self._job_class.admission, self._job_class.priority): self._job_class}
            self._job_class = None
        self._job_classes[job_class.admission, job_class.priority] = job_class

    def drop_class(self, job_class: Any) -> None:
        if self._job_classes is None:
            self._job_class = None
            return
        del self._job_classes[job_class.admission, job_class.priority]
        if not self._job_classes:
            self._job_classes = None


# a name that one class has needs no dict
_Index = dict[Name, LockClass | dict[LockClass, None]]


class LockClasses:
    """All classes that have queued jobs."""

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
        """The class of these needs; made if there is none."""
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
        """The class has no queued jobs any more."""
        del self._classes[lock_class.needs]
        for name in lock_class.needs.shared:
            _unlist(self._shared, name, lock_class)
        for name in lock_class.needs.exclusive:
            _unlist(self._exclusive, name, lock_class)

    def concerned(self, changes: Iterable[NameChange]) -> Iterator[LockClass]:
        """The classes that need one of these names in a mode that clashes; their `clashes` is right by then.

        Cost: linear in the answer.
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
