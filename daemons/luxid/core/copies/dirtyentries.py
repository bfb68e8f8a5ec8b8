"""The entries of changed files in etcd, and which of them may be forgotten.

Theory. An entry is put before its change is made here, and stays until every fresh candidate has this version: the
number of the change, as the backlogs count, is known when it is made here, and a candidate has it when its backlog
lacks no change of the file up to that number. A later change of the file is a later version of its entry, and nothing
is known of that until it is made, too. The entry of a job in the hands of a process stays in any case: the file of such
a job may be newer on the node of the process, and only the entry tells a new master that there was one.

Source: DESIGN section 14.
"""

from collections.abc import Callable, Container, Iterable, Mapping

import attrs

from common.ids import JobId
from daemons.luxid.core.copies.backlog import Key

# whether all fresh candidates have the changes of a file up to a number
Holds = Callable[[Key, int], bool]


@attrs.frozen
class _Entry:
    # of etcd, at which it was put
    revision: int
    # number of its change; None: that is not made here yet
    number: int | None


class DirtyEntries:
    """What etcd holds of the files of the queue."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    @property
    def keys(self) -> Iterable[Key]:
        """The files that have an entry."""
        return self._entries.keys()

    def committed(self, keys: Iterable[Key], revision: int) -> None:
        """These have new entries, whose changes are to be made here."""
        for key in keys:
            self._entries[key] = _Entry(revision, None)

    def made(self, keys: Iterable[Key], number: int) -> None:
        """The files here hold what their entries say."""
        for key in keys:
            if (entry := self._entries.get(key)) is not None:
                self._entries[key] = attrs.evolve(entry, number=number)

    def changed(self, keys: Iterable[Key], number: int) -> None:
        """The files have changed without an entry of their own; those that have one wait for this change, too."""
        for key in keys:
            if (entry := self._entries.get(key)) is not None and entry.number is not None:
                self._entries[key] = attrs.evolve(entry, number=number)

    def forgettable(self, keys: Iterable[Key], running: Container[JobId], holds: Holds) -> Mapping[Key, int]:
        """Those of these files whose entries no fresh candidate needs, with the revisions of the entries.

        Args: running: jobs in the hands of processes.
        """
        found: dict[Key, int] = {}
        for key in keys:
            entry = self._entries.get(key)
            if entry is None or entry.number is None or key in running:
                continue
            if holds(key, entry.number):
                found[key] = entry.revision
        return found

    def forgotten(self, revisions: Mapping[Key, int]) -> None:
        """These entries are gone, unless they were put again meanwhile."""
        for key, revision in revisions.items():
            if (entry := self._entries.get(key)) is not None and entry.revision == revision:
                del self._entries[key]
