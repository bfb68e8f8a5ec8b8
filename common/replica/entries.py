"""The entries of changes in etcd, and which of them may be forgotten. Pure.

Theory. An entry says what a file, or an object, is to be. It is put before its change is made here, and stays until
every candidate that counts has this version. Changes are numbered in the order in which they happen, and what a
candidate has is told by such a number. Where the number of a change is known only when it is made here, nothing is
known of its entry until then. A later change of the same key is a later version of its entry, with a later revision;
nothing is known of that until it is made, too.

Source: DESIGN section 14.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import attrs

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class _Entry:
    # of etcd, at which it was put
    revision: int
    # number of its change; None: that is not made here yet
    number: int | None


class DirtyEntries(Generic[K]):
    """What etcd holds of changes, by their keys."""

    def __init__(self) -> None:
        self._entries: dict[K, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    @property
    def keys(self) -> Iterable[K]:
        """The keys that have an entry."""
        return self._entries.keys()

    def committed(self, keys: Iterable[K], revision: int, number: int | None = None) -> None:
        """These have new entries. Args: number: of the change; None: it is told when it is made here."""
        for key in keys:
            self._entries[key] = _Entry(revision, number)

    def made(self, keys: Iterable[K], number: int) -> None:
        """What is here is what their entries say."""
        for key in keys:
            if (entry := self._entries.get(key)) is not None:
                self._entries[key] = attrs.evolve(entry, number=number)

    def changed(self, keys: Iterable[K], number: int) -> None:
        """These have changed without an entry of their own; those that have one wait for this change, too."""
        for key in keys:
            if (entry := self._entries.get(key)) is not None and entry.number is not None:
                self._entries[key] = attrs.evolve(entry, number=number)

    def forgettable(
        self, keys: Iterable[K], holds: Callable[[K, int], bool], kept: Container[K] = ()
    ) -> Mapping[K, int]:
        """Those of these keys whose entries no candidate needs, with the revisions of the entries.

        Args:
            holds: whether all candidates that count have the changes of a key up to a number.
            kept: keys whose entries stay in any case.
        """
        found: dict[K, int] = {}
        for key in keys:
            entry = self._entries.get(key)
            if entry is None or entry.number is None or key in kept:
                continue
            if holds(key, entry.number):
                found[key] = entry.revision
        return found

    def forgotten(self, revisions: Mapping[K, int]) -> None:
        """These entries are gone, unless they were put again meanwhile."""
        for key, revision in revisions.items():
            if (entry := self._entries.get(key)) is not None and entry.revision == revision:
                del self._entries[key]
