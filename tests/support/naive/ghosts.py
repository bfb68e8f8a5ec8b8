"""The dumb twin of guards and ghosts over the dumb twin of fair locks: the rules of `protocol.wconfd.locks`."""

from collections.abc import Collection, Iterable, Sequence
from typing import Self

from common.errors import AlreadyPending, Conflict
from common.locks import Lock, LockMode, LockRequest, Owner, mode_rank
from tests.support.naive.fairness import NaiveFairLocks
from tests.support.naive.locks import EXCLUSIVE, touch


class NaiveGhosts(NaiveFairLocks):
    def __init__(self, max_bypass: int) -> None:
        super().__init__(max_bypass)
        # owner -> keys
        self.guards: dict[Owner, set[str]] = {}
        self.ghosts: set[Owner] = set()

    def copy(self) -> Self:
        twin = super().copy()
        twin.guards = {owner: set(keys) for owner, keys in self.guards.items()}
        twin.ghosts = set(self.ghosts)
        return twin

    def apply(self, owner: Owner, requests: Iterable[LockRequest]) -> None:
        super().apply(owner, requests)
        self.drop_void()

    def drop_void(self) -> None:
        for owner in [owner for owner in self.guards if owner not in self.held]:
            del self.guards[owner]
            self.ghosts.discard(owner)

    def goes_before(self, other: Owner, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        return not self.waits_for_ghost(other) and super().goes_before(other, owner, requests)

    def waits_for_ghost(self, owner: Owner) -> bool:
        return any(
            touch(lock, asked.lock) and asked.mode and EXCLUSIVE in (mode, asked.mode)
            for ghost in self.ghosts - {owner}
            for lock, mode in self.held[ghost].items()
            for asked in self.pending[owner][1]
        )

    def guard(self, owner: Owner, keys: Collection[str]) -> None:
        if keys and owner not in self.held:
            raise Conflict
        if keys:
            self.guards.setdefault(owner, set()).update(keys)

    def die(self, owner: Owner) -> list[Owner]:
        if owner not in self.guards:
            return self.free_all(owner)
        self.pending.pop(owner, None)
        self.ghosts.add(owner)
        self.ripen()
        return self.settle()

    def lay(self, keys: Collection[str]) -> list[Owner]:
        granted: list[Owner] = []
        for owner in sorted(self.guards, key=Owner.sort_key):
            self.guards[owner] -= set(keys)
        for owner in sorted(self.guards, key=Owner.sort_key):
            if not self.guards[owner] and owner in self.ghosts:
                granted += self.free_all(owner)
            elif not self.guards[owner]:
                del self.guards[owner]
        return granted

    def adopt(self, owner: Owner) -> None:
        known = {*self.held, *self.pending}
        if any(other.ident == owner.ident and other != owner and other not in self.ghosts for other in known):
            raise Conflict
        ghosts = [ghost for ghost in self.ghosts if ghost.ident == owner.ident]
        if ghosts and owner in self.pending:
            raise AlreadyPending
        for ghost in ghosts:
            locks, keys = self.held.pop(ghost), self.guards.pop(ghost)
            self.ghosts.remove(ghost)
            mine = self.held.setdefault(owner, {})
            for lock, mode in locks.items():
                mine[lock] = max(mode, mine.get(lock, mode), key=mode_rank)
            self.guards.setdefault(owner, set()).update(keys)

    def claim(
        self, owner: Owner, locks: Sequence[tuple[Lock, LockMode]], keys: Collection[str]
    ) -> tuple[bool, list[Owner]]:
        """Whether it is refused, and who was granted anything."""
        if not locks or not keys or set(keys) <= {key for each in self.guards.values() for key in each}:
            return False, []
        requests = [LockRequest(*item) for item in locks]
        if NaiveGhosts.holders_in_the_way(self, owner, requests):
            return True, []
        if owner in self.held:
            self.guard(owner, keys)
            return False, []
        strongest: dict[Lock, LockMode] = {}
        for lock, mode in locks:
            strongest[lock] = max(mode, strongest.get(lock, mode), key=mode_rank)
        self.apply(owner, [LockRequest(*item) for item in strongest.items()])
        self.guards[owner] = set(keys)
        self.ghosts.add(owner)
        return False, self.settle()

    def holders_in_the_way(self, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        return any(
            other != owner and asked.mode and EXCLUSIVE in (mode, asked.mode) and touch(lock, asked.lock)
            for other, locks in self.held.items()
            for lock, mode in locks.items()
            for asked in requests
        )
