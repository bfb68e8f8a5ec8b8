"""The dumb twin of the lock core: plain dicts, and the rules of wconfd.md 5.2, 5.3, 5.5, 5.6 word by word.

Nothing here is indexed and nothing shared: each question scans everything.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from common.errors import AlreadyPending, LockRuleViolation, OrderViolation
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner, mode_rank

SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE


class NaiveLocks:
    def __init__(self) -> None:
        self.held: dict[Owner, dict[Lock, LockMode]] = {}
        self.pending: dict[Owner, tuple[int, list[LockRequest]]] = {}

    def copy(self) -> Self:
        twin = copy.copy(self)
        twin.held = {who: dict(locks) for who, locks in self.held.items()}
        twin.pending = dict(self.pending)
        return twin

    def mode(self, owner: Owner, lock: Lock | None) -> LockMode | None:
        return self.held.get(owner, {}).get(lock) if lock else None

    def blockers(self, owner: Owner, requests: Iterable[LockRequest]) -> list[Owner]:
        found = {
            other
            for other, locks in self.held.items()
            for lock, mode in locks.items()
            for asked in requests
            if other != owner and asked.mode and EXCLUSIVE in (mode, asked.mode) and touch(lock, asked.lock)
        }
        return sorted(found, key=Owner.sort_key)

    def check(self, owner: Owner, requests: Sequence[LockRequest]) -> None:
        if any(a.lock == b.lock and a.mode != b.mode for a in requests for b in requests):
            raise LockRuleViolation("inconsistent")
        held = self.held.get(owner, {})
        for asked in requests:
            strength = max(mode_rank(self.mode(owner, asked.lock)), mode_rank(self.mode(owner, asked.lock.group)))
            if any(asked.lock < lock for lock in held) and strength < mode_rank(asked.mode):
                raise OrderViolation
        if any(asked.mode is EXCLUSIVE and self.mode(owner, asked.lock.group) is SHARED for asked in requests):
            raise LockRuleViolation("exclusive under shared")

    def try_update(self, owner: Owner, requests: Sequence[LockRequest]) -> tuple[list[Owner], list[Owner]]:
        """Who is in the way, and who was granted a pending request."""
        if owner in self.pending:
            raise AlreadyPending
        if all(self.mode(owner, asked.lock) is asked.mode for asked in requests):
            return [], []
        self.check(owner, requests)
        blocked_on = self.blockers(owner, requests)
        if blocked_on:
            return blocked_on, []
        self.apply(owner, requests)
        return [], self.settle()

    def update_or_queue(
        self, owner: Owner, priority: int, requests: Sequence[LockRequest]
    ) -> tuple[list[Owner], list[Owner]]:
        if owner in self.pending and self.pending[owner][1] == requests:
            return self.blockers(owner, requests), []
        blocked_on, granted = self.try_update(owner, requests)
        if blocked_on:
            self.pending[owner] = (priority, list(requests))
        return blocked_on, granted

    def apply(self, owner: Owner, requests: Iterable[LockRequest]) -> None:
        locks = self.held.setdefault(owner, {})
        for asked in requests:
            locks.pop(asked.lock, None)
            if asked.mode:
                locks[asked.lock] = asked.mode
        if not locks:
            del self.held[owner]

    def settle(self) -> list[Owner]:
        """Grant the first that is possible, and start again from the top."""
        for _, _, owner in sorted((priority, owner.sort_key(), owner) for owner, (priority, _) in self.pending.items()):
            requests = self.pending[owner][1]
            if not self.blockers(owner, requests):
                del self.pending[owner]
                self.apply(owner, requests)
                return [owner, *self.settle()]
        return []

    def weaken(self, owner: Owner, rule: Callable[[Lock, LockMode], LockMode | None]) -> list[Owner]:
        self.pending.pop(owner, None)
        changed = [
            (lock, rule(lock, mode)) for lock, mode in self.held.get(owner, {}).items() if rule(lock, mode) != mode
        ]
        return self.try_update(owner, [LockRequest(*item) for item in changed])[1]

    def free_level(self, owner: Owner, level: LockLevel) -> list[Owner]:
        return self.weaken(owner, lambda lock, mode: None if lock.level is level else mode)

    def downgrade_level(self, owner: Owner, level: LockLevel) -> list[Owner]:
        return self.weaken(owner, lambda lock, mode: SHARED if lock.level is level else mode)

    def intersect(self, owner: Owner, locks: Sequence[Lock]) -> list[Owner]:
        return self.weaken(owner, lambda lock, mode: mode if lock in locks else None)

    def free_all(self, owner: Owner) -> list[Owner]:
        return self.weaken(owner, lambda lock, mode: None)

    def union(self, owner: Owner, wanted: Iterable[tuple[Lock, LockMode]], least: int = 0) -> list[Lock]:
        before = {who: dict(locks) for who, locks in self.held.items()}
        missing = [LockRequest(*item) for item in wanted if mode_rank(item[1]) > mode_rank(self.mode(owner, item[0]))]
        taken: list[Lock] = []
        for asked in sorted(missing, key=LockRequest.sort_key):
            try:
                blocked_on, _ = self.try_update(owner, [asked])
            except LockRuleViolation:
                continue
            if not blocked_on:
                taken.insert(0, asked.lock)
        if len(taken) < least:
            self.held = before
            return []
        return taken


def touch(a: Lock, b: Lock) -> bool:
    """The same lock, or one the group of the other."""
    return a == b or a.group == b or a == b.group
