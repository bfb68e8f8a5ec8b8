"""The dumb twin of a fair lock core: `NaiveLocks`, and the rules of `core.fairness` word by word."""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from common.errors import UpgradeDeadlock
from common.locks import Lock, LockMode, LockRequest, Owner, mode_rank
from tests.support.naive.locks import EXCLUSIVE, SHARED, NaiveLocks, touch


class NaiveFairLocks(NaiveLocks):
    def __init__(self, max_bypass: int) -> None:
        super().__init__()
        self.max_bypass = max_bypass
        self.passes: dict[Owner, int] = {}
        self.overdue: list[Owner] = []
        self.ripe: list[Owner] = []

    def copy(self) -> Self:
        twin = super().copy()
        twin.passes, twin.overdue, twin.ripe = dict(self.passes), list(self.overdue), list(self.ripe)
        return twin

    def ripen(self) -> None:
        """Whoever has just become ripe joins the line; whoever is in it and conflicts with nothing overdue, is."""
        for owner in sorted(self.pending, key=lambda owner: (self.pending[owner][0], owner.sort_key())):
            wants_alone = any(asked.mode is EXCLUSIVE for asked in self.pending[owner][1])
            if wants_alone and self.passes[owner] >= self.max_bypass and owner not in [*self.ripe, *self.overdue]:
                self.ripe.append(owner)
        self.overdue = [owner for owner in self.overdue if owner in self.pending]
        self.ripe = [owner for owner in self.ripe if owner in self.pending]
        for owner in list(self.ripe):
            if not any(in_conflict(self.pending[owner][1], self.pending[other][1]) for other in self.overdue):
                self.ripe.remove(owner)
                self.overdue.append(owner)

    def blockers(self, owner: Owner, requests: Iterable[LockRequest]) -> list[Owner]:
        requests = list(requests)
        return super().blockers(owner, requests) or self.ahead_of(owner, requests)

    def ahead_of(self, owner: Owner, requests: Sequence[LockRequest]) -> list[Owner]:
        self.ripen()
        if owner in self.overdue:
            return []
        found = [other for other in self.overdue if self.goes_before(other, owner, requests)]
        return sorted(found, key=Owner.sort_key)

    def goes_before(self, other: Owner, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        """Whether `other`, once overdue, holds the owner's request back."""
        asked = [item for item in requests if item.mode and not self.is_covered(owner, item)]
        conflict = in_conflict(asked, self.pending[other][1])
        floor = self.floor(other)
        return other != owner and conflict and all(not floor or held < floor for held in self.held.get(owner, {}))

    def is_covered(self, owner: Owner, item: LockRequest) -> bool:
        held = max(mode_rank(self.mode(owner, item.lock)), mode_rank(self.mode(owner, item.lock.group)))
        return held >= mode_rank(item.mode)

    def floor(self, owner: Owner) -> Lock | None:
        """The first lock at which a holder keeps the owner out."""
        return min(
            (
                min(lock, asked.lock)
                for other, locks in self.held.items()
                for lock, mode in locks.items()
                for asked in self.pending[owner][1]
                if other != owner and asked.mode and EXCLUSIVE in (mode, asked.mode) and touch(lock, asked.lock)
            ),
            default=None,
        )

    def update_or_queue(
        self, owner: Owner, priority: int, requests: Sequence[LockRequest]
    ) -> tuple[list[Owner], list[Owner]]:
        was_pending = owner in self.pending
        answer = super().update_or_queue(owner, priority, requests)
        if owner in self.pending and not was_pending:
            self.passes[owner] = 0
            self.ripen()
            if self.is_in_ring(owner):
                del self.pending[owner]
                raise UpgradeDeadlock
        return answer

    def is_in_ring(self, owner: Owner) -> bool:
        seen: set[Owner] = set()
        left = [owner]
        while left:
            waiter = left.pop()
            behind = self.blockers(waiter, self.pending[waiter][1]) if waiter in self.pending else []
            if owner in behind:
                return True
            left += [other for other in behind if other not in seen]
            seen.update(behind)
        return False

    def apply(self, owner: Owner, requests: Iterable[LockRequest]) -> None:
        requests = list(requests)
        shared = [item.lock for item in requests if item.mode is SHARED and self.mode(owner, item.lock) is None]
        for other, (_, wanted) in self.pending.items():
            if any(touch(lock, item.lock) and item.mode is EXCLUSIVE for lock in shared for item in wanted):
                self.passes[other] += 1
        self.ripen()
        super().apply(owner, requests)

    def weaken(self, owner: Owner, rule: Callable[[Lock, LockMode], LockMode | None]) -> list[Owner]:
        self.pending.pop(owner, None)
        self.ripen()
        granted = super().weaken(owner, rule)
        # also when nothing was released: its pending request may have held others back
        return granted + self.settle()

    def union(self, owner: Owner, wanted: Iterable[tuple[Lock, LockMode]], least: int = 0) -> list[Lock]:
        before = dict(self.passes), list(self.overdue), list(self.ripe)
        taken = super().union(owner, wanted, least)
        if not taken:
            self.passes, self.overdue, self.ripe = before
        return taken


def in_conflict(asked: Iterable[LockRequest], wanted: Sequence[LockRequest]) -> bool:
    return any(
        touch(a.lock, b.lock) and a.mode and b.mode and EXCLUSIVE in (a.mode, b.mode) for a in asked for b in wanted
    )
