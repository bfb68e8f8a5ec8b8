"""A lock table for virtual time, in the simplest form: shared and exclusive, groups, and bounded bypassing.

Theory. In a trace all locks of a job are known, so a job requests all of them at once, and holds nothing while it
waits: there are no rings. Of wconfd's rules these remain. Two jobs conflict
if two of their locks do (`common.locks.conflicts`). A request is granted whole or waits; when a job frees its
locks, the waiting jobs are tried by (priority, job id). A waiting request that was passed `max_bypass` times
by jobs that share what it wants exclusively is overdue, unless it conflicts with a request that is already overdue.
From then on the jobs that conflict with it wait for it, as if it held its locks.
Cost: linear in all held and waiting requests, which are at most as many as the slots.

Source: wconfd.md 5.1 to 5.3; DESIGN section 5.
"""

from collections.abc import Iterable, Mapping

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode, meets

Locks = Mapping[Lock, LockMode]


@attrs.define(eq=False)
class _Waiting:
    priority: int
    job_id: JobId
    locks: Locks
    passes: int = 0

    @property
    def place(self) -> tuple[int, JobId]:
        return (self.priority, self.job_id)


class VirtualLocks:
    """The held locks and the waiting requests.

    Args:
        max_bypass: None: no bound.
    """

    def __init__(self, max_bypass: int | None) -> None:
        self._max_bypass = max_bypass
        self._held: dict[JobId, Locks] = {}
        self._waiting: list[_Waiting] = []
        # overdue requests; no two of them conflict
        self._overdue: list[_Waiting] = []
        # requests that were passed often enough, but conflict with an overdue one
        self._ripe: list[_Waiting] = []

    def ask(self, job_id: JobId, priority: int, locks: Locks) -> bool:
        """Grant all of these locks, or let the job wait for them; return whether they were granted."""
        asked = _Waiting(priority, job_id, locks)
        if self._may_have(asked):
            self._grant(asked)
            return True
        self._waiting.append(asked)
        self._waiting.sort(key=lambda each: each.place)
        if self._max_bypass == 0 and LockMode.EXCLUSIVE in locks.values():
            self._ripen([asked])
        return False

    def free(self, job_id: JobId) -> list[JobId]:
        """Release all locks of the job; return the jobs whose requests are granted by that, in order."""
        self._held.pop(job_id, None)
        granted: list[JobId] = []
        # a grant frees no lock, so one pass is enough
        for each in tuple(self._waiting):
            if self._may_have(each):
                self._leave(each)
                self._grant(each)
                granted.append(each.job_id)
        return granted

    def _leave(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._ripe = [each for each in self._ripe if each is not waiting]
        if waiting in self._overdue:
            self._overdue.remove(waiting)
            self._ripen([])

    def _may_have(self, asked: _Waiting) -> bool:
        in_the_way = [*self._held.values(), *(each.locks for each in self._overdue if each is not asked)]
        return not any(conflict(asked.locks, locks) for locks in in_the_way)

    def _grant(self, asked: _Waiting) -> None:
        self._held[asked.job_id] = asked.locks
        passed = [each for each in self._waiting if _is_passed(each.locks, asked.locks)]
        for each in passed:
            each.passes += 1
        self._ripen([each for each in passed if each.passes == self._max_bypass])

    def _ripen(self, waiting: Iterable[_Waiting]) -> None:
        """Make these, which were passed often enough, overdue where possible, the earliest first."""
        ripe, self._ripe = [*self._ripe, *waiting], []
        for each in ripe:
            is_kept_back = any(conflict(each.locks, other.locks) for other in self._overdue)
            (self._ripe if is_kept_back else self._overdue).append(each)


def conflict(mine: Locks, others: Locks) -> bool:
    """Whether two jobs cannot hold these locks at the same time."""
    small, large = sorted((mine, others), key=len)
    return any(mode.excludes(other) for lock, mode in small.items() for other in _modes_at(lock, large))


def _is_passed(wanted: Locks, granted: Locks) -> bool:
    """Whether the grant shares what is wanted exclusively."""
    return any(
        mode is LockMode.EXCLUSIVE and LockMode.SHARED in _modes_at(lock, granted) for lock, mode in wanted.items()
    )


def _modes_at(lock: Lock, locks: Locks) -> Iterable[LockMode]:
    """The modes of the locks that overlap this one; found by look-ups, unless it is a group."""
    if lock.is_group:
        return [mode for other, mode in locks.items() if meets(lock, other)]
    group = lock.group
    met = [locks[lock]] if lock in locks else []
    return [*met, locks[group]] if group is not None and group in locks else met
