"""Forgets entries that no fresh candidate needs, and marks in etcd which candidates are fresh.

Theory. The entry of a job in the hands of a process stays in any case: the file of such a job may be newer on the node
of the process, and only the entry tells a new master that there was one.

What a candidate may have got is looked at together, `GATHER_S` after the first of it: a transaction for each
file would cost as much as the changes themselves. A refusal or a silent etcd holds nothing up but this; it is tried
again.

Source: DESIGN section 14; `common.replica.entries`, `core.copies.etcdentries`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import trio

from common.errors import GantryError, Unavailable
from common.lease.changes import Dirty, KeyChange
from common.lease.records import EtcdKeys
from common.replica.entries import DirtyEntries
from common.replica.replica import NoLongerMaster
from common.system.log import get_log
from common.system.shortages import retry_pauses
from daemons.luxid.copying.sending import NodeSender, SenderEvents
from daemons.luxid.core.copies.backlog import Key
from daemons.luxid.core.copies.etcdentries import (
    CandidateStatus,
    JobLivelocks,
    MarkChanges,
    Marks,
    changed,
    changes_of,
)
from protocol.etcd.kv import EtcdFull

# seconds in which copies that arrive are gathered
GATHER_S: Final = 0.2
# seconds after which wconfd is asked again whether a candidate has the configuration
_CONFIG_S: Final = 1.0
_log: Final = get_log(__name__)


class EtcdCommits(Protocol):
    """What is asked of `protocol.etcd.commits.Commits`."""

    async def commit(self, changes: Sequence[KeyChange]) -> int: ...

    async def forget(self, revisions: Mapping[str, int]) -> None: ...

    async def read(self, prefixes: Sequence[str]) -> Dirty: ...


class Shrinking:
    """Keeps etcd small; start `run`, and give `told` to the copies.

    Args:
        senders: returns what sends to each candidate; None: it is not known yet who they are.
        own: name of this node.
        name: returns the key in etcd of a file.
        without_config: returns the candidates that lack the latest configuration, which wconfd copies.
    """

    def __init__(
        self,
        cluster: EtcdCommits,
        keys: EtcdKeys,
        own: str,
        epoch: int,
        stale_s: float,
        *,
        senders: Callable[[], Mapping[str, NodeSender] | None],
        name: Callable[[Key], str],
        without_config: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        self.told = SenderEvents(self._sent, self._changed, self._changed)
        self._cluster = cluster
        self._keys = keys
        self._own = own
        self._epoch = epoch
        self._stale_s = stale_s
        self._senders = senders
        self._name = name
        self._without_config = without_config
        # whether a candidate would be synced but for the configuration
        self._awaits_config = False
        self._news = trio.Event()
        # files that candidates may have got since the last round
        self._arrived: set[Key] = set()
        # whether all entries are to be looked at
        self._is_all_new = True
        self._marks = Marks({}, frozenset())

    @property
    def fresh(self) -> frozenset[str]:
        """The candidates for which entries are kept."""
        return self._marks.fresh

    @property
    def stale(self) -> frozenset[str]:
        """The nodes that are marked: they may not become the master."""
        return frozenset(self._marks.stale)

    async def begin(self) -> None:
        """Read the marks; after that, and before `run`, entries may be put. Raises: GantryError."""
        found = await self._cluster.read([self._keys.synceds, self._keys.stales])
        synced: dict[str, int] = {}
        stale: set[str] = set()
        for key, entry in found.entries.items():
            if key.startswith(self._keys.stales):
                stale.add(key.removeprefix(self._keys.stales))
            elif entry.value.isdigit():
                synced[key.removeprefix(self._keys.synceds)] = int(entry.value)
        # this node is the master: its files are the ones to compare with
        own = KeyChange(self._keys.synced(self._own), str(self._epoch).encode())
        try:
            await self._cluster.commit([own, KeyChange(self._keys.stale(self._own), None)])
        except NoLongerMaster:
            raise
        except Unavailable as error:
            _log.warning("master.not_noted_as_synced", reason=error, effect="its next start does that")
        synced.pop(self._own, None)
        self._marks = Marks(synced, frozenset(stale - {self._own}))

    async def run(self, entries: DirtyEntries[Key], hands: JobLivelocks) -> None:
        """Forget and mark, until cancelled or another node is the master: then others end luxid."""
        pauses, told = retry_pauses(), ""
        while True:
            with trio.move_on_after(_CONFIG_S if self._awaits_config else self._until_stale_s()):
                await self._news.wait()
            await trio.sleep(GATHER_S)
            self._news = trio.Event()
            try:
                await self._mark_and_forget(entries, hands)
            except NoLongerMaster:
                return
            except GantryError as error:
                if error.message != told:
                    told = error.message
                    _log.warning("entries.not_forgotten", reason=error, entries=len(entries), effect="tried again")
                self._changed()
                await trio.sleep(next(pauses))
            else:
                pauses, told = retry_pauses(), ""

    def made(self, keys: Iterable[Key]) -> None:
        """These were changed here, and have entries; without fresh candidates nobody needs them."""
        if not self._marks.fresh:
            self._sent(keys)

    def look_at_all(self) -> None:
        """Entries were made here whose candidates may have told already what they have."""
        self._changed()

    def _sent(self, keys: Iterable[Key]) -> None:
        self._arrived.update(keys)
        self._news.set()

    def _changed(self) -> None:
        self._is_all_new = True
        self._news.set()

    async def _mark_and_forget(self, entries: DirtyEntries[Key], hands: JobLivelocks) -> None:
        """Raises: GantryError."""
        try:
            await self._mark(entries)
        except EtcdFull:
            # removals are taken, and make room; the marks that etcd has still say who is fresh
            await self._forget(entries, hands)
            raise
        await self._forget(entries, hands)

    async def _mark(self, entries: DirtyEntries[Key]) -> None:
        """Raises: GantryError: nothing has changed."""
        senders = self._senders()
        if senders is None:
            return
        changes = self._changes(senders, entries, frozenset())
        self._awaits_config = False
        if changes.synced:
            lacking = await self._without_config()
            self._awaits_config = bool(changes.synced & lacking)
            # what has changed meanwhile counts
            changes = self._changes(senders, entries, lacking)
        if changes.is_empty:
            return
        before = self._marks
        # kept for the new ones from now on; for the old ones until etcd knows that it is no longer done
        kept = changed(before, changes, self._epoch)
        self._marks = Marks({**before.synced, **kept.synced}, before.stale - changes.synced)
        epoch = str(self._epoch).encode()
        puts = [KeyChange(self._keys.stale(node), epoch) for node in sorted(changes.stale)]
        puts += [KeyChange(self._keys.synced(node), None) for node in sorted(changes.stale)]
        puts += [KeyChange(self._keys.synced(node), epoch) for node in sorted(changes.synced)]
        puts += [KeyChange(self._keys.stale(node), None) for node in sorted(changes.synced)]
        try:
            await self._cluster.commit(puts)
        except GantryError:
            self._marks = before
            raise
        self._marks = kept
        self._is_all_new = True
        for node in sorted(changes.stale):
            _log.warning(
                "candidate.stale", node=node, effect="no changes are kept for it; it may not become the master"
            )
        for node in sorted(changes.synced):
            _log.info("candidate.synced", node=node, epoch=self._epoch)

    def _changes(
        self, senders: Mapping[str, NodeSender], entries: DirtyEntries[Key], lacking: frozenset[str]
    ) -> MarkChanges:
        """Args: lacking: candidates that lack other things than files of the queue."""
        standings = [_standing(sender, entries, is_whole=name not in lacking) for name, sender in senders.items()]
        return changes_of(standings, self._marks, self._epoch, self._stale_s)

    async def _forget(self, entries: DirtyEntries[Key], hands: JobLivelocks) -> None:
        """Raises: GantryError."""
        senders = self._senders()
        if senders is None:
            return
        looked_at: Iterable[Key] = tuple(entries.keys) if self._is_all_new else self._arrived
        self._arrived, self._is_all_new = set(), False
        fresh = [sender for name, sender in senders.items() if name in self._marks.fresh]
        # a fresh node that is no candidate any more may lack anything until it is marked
        if len(fresh) < len(self._marks.fresh):
            self._is_all_new = True
            return

        def holds(key: Key, number: int) -> bool:
            return all(sender.backlog.is_compared and not sender.backlog.lacks((key,), number) for sender in fresh)

        found = entries.forgettable(looked_at, holds, hands.running)
        if found:
            await self._cluster.forget({self._name(key): revision for key, revision in found.items()})
            entries.forgotten(found)

    def _until_stale_s(self) -> float:
        """Seconds until a fresh candidate may have been away too long."""
        away = [
            sender.failed_since
            for name, sender in (self._senders() or {}).items()
            if sender.failed_since is not None and name in self._marks.fresh
        ]
        return max(0.0, min(away) + self._stale_s - trio.current_time()) if away else float("inf")


def _standing(sender: NodeSender, entries: DirtyEntries[Key], *, is_whole: bool) -> CandidateStatus:
    backlog = sender.backlog
    replies = sender.failed_since is None
    is_complete = is_whole and replies and backlog.is_compared and all(key in entries for key in backlog.keys)
    away_s = 0.0 if sender.failed_since is None else trio.current_time() - sender.failed_since
    return CandidateStatus(sender.node.name, is_complete, away_s)
