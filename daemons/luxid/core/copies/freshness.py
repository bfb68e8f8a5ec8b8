"""Which candidates are fresh: what they lack is in etcd, so each of them may become the master.

Theory. A candidate is fresh from the moment when it has all files but those that have an entry in etcd, and entries are
kept for it from then on. One that is away for long would keep them for ever; it is marked as stale, and only then are
entries no longer kept for it. A node that is no candidate any more is marked, too, and so is a new one: nothing was
kept for it. Marks are in etcd; one is put there before less is kept, and taken away after more is.

Each master compares the files of all candidates once, and notes its epoch with each: a former master has files that
nobody knows until then.

Source: DESIGN section 14.
"""

from collections.abc import Iterable, Mapping, Set

import attrs


@attrs.frozen
class Standing:
    """A candidate, as its sender knows it."""

    name: str
    # whether all that it lacks has an entry in etcd
    is_complete: bool
    # seconds since it was last heard, if it does not reply; 0: it does
    away_s: float


@attrs.frozen
class Marks:
    """What etcd says of nodes."""

    # fresh nodes -> epoch of the last master that has compared their files
    synced: Mapping[str, int]
    stale: Set[str]

    @property
    def fresh(self) -> frozenset[str]:
        return frozenset(self.synced) - self.stale


@attrs.frozen
class MarkChanges:
    # nodes for which no entries are kept any more
    stale: frozenset[str]
    # nodes that were compared, and are fresh
    synced: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not self.stale and not self.synced


def changes_of(standings: Iterable[Standing], marks: Marks, epoch: int, stale_s: float) -> MarkChanges:
    """Decide what is to be changed in etcd.

    Args:
        standings: of all candidates but the master.
        epoch: of this mastership.
        stale_s: time after which a candidate that is away holds nothing back.
    """
    candidates = {each.name: each for each in standings}
    synced = {
        name
        for name, each in candidates.items()
        if each.is_complete and (name not in marks.fresh or marks.synced[name] < epoch)
    }
    away = {name for name, each in candidates.items() if each.away_s >= stale_s}
    wanted = (marks.synced.keys() - candidates.keys()) | away | (candidates.keys() - marks.synced.keys())
    return MarkChanges(frozenset(wanted - marks.stale - synced), frozenset(synced))


def changed(marks: Marks, changes: MarkChanges, epoch: int) -> Marks:
    """The marks when etcd has the changes."""
    synced = {name: number for name, number in marks.synced.items() if name not in changes.stale}
    stale = (marks.stale | changes.stale) - changes.synced
    return Marks(synced | dict.fromkeys(changes.synced, epoch), stale)
