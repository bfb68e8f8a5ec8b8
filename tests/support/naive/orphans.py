"""The dumb twin of commands and orphans over the dumb twin of fair locks: the rules of `protocol.wconfd.locks`."""

from collections.abc import Collection, Iterable, Sequence
from typing import Self

from common.errors import AlreadyPending, Conflict
from common.locks import Lock, LockMode, LockRequest, Owner, mode_rank
from tests.support.naive.fairness import NaiveFairLocks
from tests.support.naive.locks import EXCLUSIVE, touch


class NaiveOrphans(NaiveFairLocks):
    def __init__(self, max_bypass: int) -> None:
        super().__init__(max_bypass)
        # owner -> keys
        self.may_run: dict[Owner, set[str]] = {}
        self.orphans: set[Owner] = set()

    def copy(self) -> Self:
        twin = super().copy()
        twin.may_run = {owner: set(keys) for owner, keys in self.may_run.items()}
        twin.orphans = set(self.orphans)
        return twin

    def apply(self, owner: Owner, requests: Iterable[LockRequest]) -> None:
        super().apply(owner, requests)
        self.drop_void()

    def drop_void(self) -> None:
        for owner in [owner for owner in self.may_run if owner not in self.held]:
            del self.may_run[owner]
            self.orphans.discard(owner)

    def goes_before(self, other: Owner, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        return not self.waits_for_orphan(other) and super().goes_before(other, owner, requests)

    def waits_for_orphan(self, owner: Owner) -> bool:
        return any(
            touch(lock, asked.lock) and asked.mode and EXCLUSIVE in (mode, asked.mode)
            for orphan in self.orphans - {owner}
            for lock, mode in self.held[orphan].items()
            for asked in self.pending[owner][1]
        )

    def keep_for(self, owner: Owner, keys: Collection[str]) -> None:
        if keys and owner not in self.held:
            raise Conflict
        if keys:
            self.may_run.setdefault(owner, set()).update(keys)

    def die(self, owner: Owner) -> list[Owner]:
        if owner not in self.may_run:
            return self.free_all(owner)
        self.pending.pop(owner, None)
        self.orphans.add(owner)
        self.ripen()
        return self.settle()

    def release(self, keys: Collection[str]) -> list[Owner]:
        granted: list[Owner] = []
        for owner in sorted(self.may_run, key=Owner.sort_key):
            self.may_run[owner] -= set(keys)
        for owner in sorted(self.may_run, key=Owner.sort_key):
            if not self.may_run[owner] and owner in self.orphans:
                granted += self.free_all(owner)
            elif not self.may_run[owner]:
                del self.may_run[owner]
        return granted

    def adopt(self, owner: Owner) -> None:
        known = {*self.held, *self.pending}
        if any(other.ident == owner.ident and other != owner and other not in self.orphans for other in known):
            raise Conflict
        orphans = [orphan for orphan in self.orphans if orphan.ident == owner.ident]
        if orphans and owner in self.pending:
            raise AlreadyPending
        for orphan in orphans:
            locks, keys = self.held.pop(orphan), self.may_run.pop(orphan)
            self.orphans.remove(orphan)
            mine = self.held.setdefault(owner, {})
            for lock, mode in locks.items():
                mine[lock] = max(mode, mine.get(lock, mode), key=mode_rank)
            self.may_run.setdefault(owner, set()).update(keys)

    def claim(
        self, owner: Owner, locks: Sequence[tuple[Lock, LockMode]], keys: Collection[str]
    ) -> tuple[bool, list[Owner]]:
        """Whether it is refused, and who was granted anything."""
        if not locks or not keys or set(keys) <= {key for each in self.may_run.values() for key in each}:
            return False, []
        requests = [LockRequest(*item) for item in locks]
        if NaiveOrphans.holders_in_the_way(self, owner, requests):
            return True, []
        if owner in self.held:
            self.keep_for(owner, keys)
            return False, []
        strongest: dict[Lock, LockMode] = {}
        for lock, mode in locks:
            strongest[lock] = max(mode, strongest.get(lock, mode), key=mode_rank)
        self.apply(owner, [LockRequest(*item) for item in strongest.items()])
        self.may_run[owner] = set(keys)
        self.orphans.add(owner)
        return False, self.settle()

    def holders_in_the_way(self, owner: Owner, requests: Sequence[LockRequest]) -> bool:
        return any(
            other != owner and asked.mode and EXCLUSIVE in (mode, asked.mode) and touch(lock, asked.lock)
            for other, locks in self.held.items()
            for lock, mode in locks.items()
            for asked in requests
        )
