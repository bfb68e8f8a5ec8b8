"""What one owner holds, and the holders of one lock: the two leaves of the lock table.

Both are values. Their maps are persistent hash tries (`immutables`): a changed map shares all
untouched branches with the old one, so a change costs the same whether the owner holds ten locks
or a hundred thousand. A plain dict would have to be copied whole at each change.

Source: wconfd.md 5.1.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import attrs
from immutables import Map

from common.asciijson import ascii_json
from common.locks import Lock, LockMode, Owner, owned_to_wire

_NO_MODES: Final[Map[Lock, LockMode]] = Map()
_NO_DIRECT: Final[Map[Owner, LockMode]] = Map()
NOBODY: Final[Map[Owner, int]] = Map()


@attrs.frozen
class Holdings:
    """All locks of one owner, without anything that groups imply."""

    # owner as in its last change, but a pid once known is kept
    owner: Owner
    modes: Map[Lock, LockMode] = _NO_MODES
    # bound: no held lock is greater; None only if nothing was ever held
    _bound: Lock | None = attrs.field(default=None, eq=False, repr=False)

    def is_above(self, lock: Lock) -> bool:
        """Whether a lock greater than `lock` is held.

        Cost: O(1); after the greatest lock was released O(locks of this owner), once, and only
        if `lock` lies before the released one.
        """
        if self._bound is None or not lock < self._bound:
            return False
        return lock < self.greatest()

    def greatest(self) -> Lock:
        """The greatest held lock; at least one is held. Cost: as `is_above`."""
        if self._bound is None or self._bound not in self.modes:
            # a tighter bound for the same holdings: nothing that can be seen changes
            object.__setattr__(self, "_bound", max(self.modes, key=lambda lock: lock.place))
        assert self._bound is not None
        return self._bound

    def with_modes(self, owner: Owner, changes: Mapping[Lock, LockMode | None]) -> "Holdings":
        """These holdings after `changes`, where None releases. Cost: O(changes)."""
        modes, bound = self.modes.mutate(), self._bound
        for lock, mode in changes.items():
            if mode is None:
                modes.pop(lock, None)
            else:
                modes[lock] = mode
                bound = lock if bound is None or bound < lock else bound
        return Holdings(self.owner if owner.pid is None else owner, modes.finish(), bound)

    def in_order(self) -> list[tuple[Lock, LockMode]]:
        return sorted(self.modes.items(), key=lambda held: held[0].place)

    @cached_property
    def place(self) -> tuple[bool, int, str, str]:
        """Where this owner stands among all owners."""
        return self.owner.sort_key()

    @cached_property
    def row(self) -> bytes:
        """This owner's row of `locks.data`, made at most once: an update encodes only the owners that changed."""
        return ascii_json([self.owner.to_wire(), owned_to_wire(self.in_order())])


@attrs.frozen
class Holders:
    """The holders of one lock, directly and, if it is a group lock, through its members."""

    # an exclusive holder is alone
    direct: Map[Owner, LockMode] = _NO_DIRECT
    # number of locks of this group that each owner holds; no zeros
    through_members: Map[Owner, int] = NOBODY
    # number of those that are held exclusively
    through_exclusive_members: Map[Owner, int] = NOBODY

    @property
    def is_exclusive(self) -> bool:
        """Whether the lock itself is held exclusively. Cost: O(1), as an exclusive holder is alone."""
        return len(self.direct) == 1 and next(iter(self.direct.values())) is LockMode.EXCLUSIVE

    def with_direct(self, owner: Owner, mode: LockMode | None) -> "Holders":
        direct = self.direct.delete(owner) if mode is None else self.direct.set(owner, mode)
        return Holders(direct, self.through_members, self.through_exclusive_members)

    def with_members(self, owner: Owner, held: int, exclusive: int) -> "Holders":
        """Add to the counts of `owner`; a count that becomes zero goes."""
        return Holders(
            self.direct,
            _counted(self.through_members, owner, held),
            _counted(self.through_exclusive_members, owner, exclusive),
        )

    def __bool__(self) -> bool:
        return bool(self.direct) or bool(self.through_members)

    def __iter__(self) -> Iterator[tuple[Owner, LockMode]]:
        """The direct holders, in owner order."""
        return iter(sorted(self.direct.items(), key=lambda held: held[0].sort_key()))


def _counted(counts: Map[Owner, int], owner: Owner, change: int) -> Map[Owner, int]:
    if not change:
        return counts
    count = counts.get(owner, 0) + change
    return counts.set(owner, count) if count else counts.delete(owner)
