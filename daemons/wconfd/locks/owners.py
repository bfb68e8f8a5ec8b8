"""The owners that have ever requested anything, by livelock: the index by which a death finds its owners.

It contains at least every owner in any table, and forgets one at its death. An owner is entered before
its request gets its place in the queue of changes. So when a death is noticed, either the owner is
known, and the change that frees it comes after its request; or it is entered later, as a newcomer, and the
check of newcomers finds it dead. Without that check a request still unread when its
sender died would leave locks behind that no event reports any more.

Source: DESIGN section 5.
"""

import os
from collections.abc import Iterable

import trio

from common.locks import Owner


class KnownOwners:
    """Owners by the path of their livelock, as they gave it."""

    def __init__(self, owners: Iterable[Owner] = ()) -> None:
        self._owners: dict[str, set[Owner]] = {}
        # file name -> paths: one folder may have two paths (/var/run, /run)
        self._paths: dict[str, set[str]] = {}
        self._newcomers: list[str] = []
        self._has_newcomers = trio.Event()
        for owner in owners:
            self._add(owner)

    def meet(self, owner: Owner) -> None:
        """Enter this owner. Cost: O(1)."""
        if owner.livelock not in self._owners:
            self._newcomers.append(owner.livelock)
            self._has_newcomers.set()
        self._add(owner)

    def restore(self, owners: Iterable[Owner]) -> None:
        """Enter owners again that could not be freed; they are not newcomers."""
        for owner in owners:
            self._add(owner)

    def paths(self) -> tuple[str, ...]:
        return tuple(self._owners)

    def paths_named(self, names: Iterable[str]) -> list[str]:
        """The paths of known livelocks that end in one of these file names. Cost: O(names)."""
        return [path for name in set(names) for path in self._paths.get(name, ())]

    def forget(self, path: str) -> frozenset[Owner]:
        """Remove and return the owners of a livelock; an owner that comes again is a newcomer."""
        name = os.path.basename(path)
        paths = self._paths.get(name, set())
        paths.discard(path)
        if not paths:
            self._paths.pop(name, None)
        return frozenset(self._owners.pop(path, ()))

    def keep(self, owners: frozenset[Owner]) -> None:
        """Forget all other owners. Cost: O(known owners)."""
        for path, known in tuple(self._owners.items()):
            known &= owners
            if not known:
                self.forget(path)

    async def newcomers(self) -> list[str]:
        """Wait for livelocks that were not known before; each is returned once. For one task."""
        await self._has_newcomers.wait()
        found, self._newcomers, self._has_newcomers = self._newcomers, [], trio.Event()
        return found

    def _add(self, owner: Owner) -> None:
        self._owners.setdefault(owner.livelock, set()).add(owner)
        self._paths.setdefault(os.path.basename(owner.livelock), set()).add(owner.livelock)
