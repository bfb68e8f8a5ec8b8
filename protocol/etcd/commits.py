"""Commit changes to etcd for many concurrent callers of one daemon, with few transactions.

Theory. A transaction costs nearly the same for one change or fifty. One task sends them; callers leave their changes
with it and sleep. What was left while a transaction was under way goes into the next one. So a lone caller waits for
one transaction, and a crowd for at most two.

A change counts when etcd's majority has it, which is when `commit` returns; callers write their files after that. What
became of a transaction may be unknown: then it is sent again, to the next member, until it is known or this node's own
deadline has passed. Sending it twice is no fault (`protocol.etcd.fencing`).

Once a transaction was refused, or the deadline has passed, nothing is sent any more: another node may be the master.
A full etcd refuses changes and goes on to forget them, which is what makes room again.

    commits = Commits(client, keys, grant.fence, deadline, writer="luxid")
    await nursery.start(commits.run)
    dirty = await commits.read([keys.dirty])
    revision = await commits.commit([Change(keys.dirty + "queue/job-17", encode_fate(Written(content)))])

Source: DESIGN section 14; lease.md 7.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
import trio

from common.errors import GantryError, InvalidRequest, Unavailable
from common.lease.changes import Dirty, KeyChange, Stored, check_change, folders_of, group_length, join, merged, size_of
from common.lease.deadline import Deadline, boottime
from common.lease.records import EtcdKeys, Fence
from common.metrics import WORK_S, Distribution, Histogram
from common.replica.replica import NoLongerMaster
from protocol.etcd.fencedsequence import Etcd, FencedSequence, UntilKnown
from protocol.etcd.kv import Compacted, EtcdFull, Get, GetReply, TooLarge

# Read all that was committed under some prefixes of etcd, as it was at one revision.
#
# Source: DESIGN section 14; `common.lease.changes`.


# keys of one reply; values are at most 1 MiB each, and most are some KiB
PAGE_KEYS: Final = 200
# parts of one reply, of 512 KiB each
_PAGE_PARTS: Final = 16
# readings that a compaction has overtaken
_MOST_READINGS: Final = 5
_Ask = Callable[[Get], Awaitable[GetReply]]


async def read_dirty(client: Etcd, prefixes: Sequence[str], *, since: int = 0) -> Dirty:
    """Return what is committed: a change of parts without its last transaction is not.

    It costs one request for 200 keys; other clients may write meanwhile.

    Args:
        since: the reading is not older than this revision; that of the caller's mastership, or of its last write.
            A member of etcd that was stopped for a while may serve what was, in spite of its promise.
    Raises:
        DamagedFile: a value is not ours, or parts are missing.
        Unavailable: no member of etcd replies in time, or all are behind; try again.
    """
    return await read_with(client.get, prefixes, since=since)


async def read_with(ask: _Ask, prefixes: Sequence[str], *, since: int) -> Dirty:
    """As `read_dirty`. Args: ask: what sends a request."""
    for _ in range(_MOST_READINGS - 1):
        try:
            return await _read(ask, prefixes, since)
        except Compacted:
            continue
    return await _read(ask, prefixes, since)


async def _read(ask: _Ask, prefixes: Sequence[str], since: int) -> Dirty:
    revision, stored = 0, list[Stored]()
    for prefix in prefixes:
        pages = _Pages(ask, prefix, PAGE_KEYS, revision)
        stored += await pages.read()
        revision = pages.revision
        if revision < since:
            raise Unavailable(f"a member of etcd is at revision {revision}, which is before {since}; try again")
    return join(stored, await _parts(ask, folders_of(stored), revision), revision)


async def _parts(ask: _Ask, folders: Iterable[str], revision: int) -> Sequence[Stored]:
    found: list[Stored] = []
    for folder in sorted(folders):
        found += await _Pages(ask, folder, _PAGE_PARTS, revision).read()
    return found


@attrs.define
class _Pages:
    ask: _Ask
    prefix: str
    limit: int
    # at which all is read; 0: the present one, which the first reply tells
    revision: int

    async def read(self) -> Sequence[Stored]:
        stored: list[Stored] = []
        while True:
            after = stored[-1].key if stored else ""
            found = await self.ask(
                Get(self.prefix, is_prefix=True, limit=self.limit, after=after, revision=self.revision)
            )
            self.revision = self.revision or found.header.revision
            stored += [Stored(each.key, each.value, each.mod_revision) for each in found.values]
            if not found.more:
                return stored


# keys that one transaction forgets
_MOST_FORGOTTEN: Final = 100


@attrs.frozen
class CommitsState:
    """What users are told."""

    # by `boottime`; since when etcd has not replied; None: it does
    silent_since_s: float | None
    # whether etcd has refused the last change for want of space
    is_full: bool
    # why nothing is committed any more; empty: it is
    lost: str


@attrs.frozen
class CommitsStatistics:
    # commits that were carried out, and those that were not
    commits: int
    failures: int
    # transactions with changes, and the keys in them
    transactions: int
    operations: int
    # requests that were sent again
    retries: int
    # keys that were to be forgotten
    forgotten: int
    # commits that wait
    waiting: int
    # of transactions, with their retries, in seconds
    durations: Distribution


@attrs.define(eq=False)
class _PendingChanges:
    changes: Sequence[KeyChange]
    done: trio.Event = attrs.Factory(trio.Event)
    revision: int = 0
    error: GantryError | None = None


class Commits:
    """The changes of one daemon under one mastership.

    Args:
        client: an `EtcdClient`; it may be shared.
        writer: name of the daemon, such as `luxid`; only one process at a time writes under it.
    """

    def __init__(self, client: Etcd, keys: EtcdKeys, fence: Fence, deadline: Deadline, *, writer: str) -> None:
        self._etcd = UntilKnown(client, deadline)
        self._sequence = FencedSequence(self._etcd, keys, fence, writer)
        self._waiting: list[_PendingChanges] = []
        self._wake = trio.Event()
        self._is_closed = self._is_full = False
        self._loss: NoLongerMaster | None = None
        self._durations = Histogram(WORK_S)
        self._commits = self._failures = self._transactions = self._operations = self._forgotten = 0

    async def commit(self, changes: Sequence[KeyChange]) -> int:
        """Commit one change of these keys; return its revision when a majority of etcd has it.

        Changes of one key take effect in the order of the calls; of two in one call the last one counts.

        Raises:
            NoLongerMaster: another node is or may be the master; whether the change has had its effect is unknown.
            Unavailable: etcd is full, or the daemon ends; the change has had no effect.
            InvalidRequest: the change is too large; it has had no effect.
        Cancellation: the wait can be cancelled; the change is still committed.
        """
        self._check()
        if self._is_closed:
            raise Unavailable("nothing more is committed: the daemon is shutting down")
        check_change(changes)
        if not changes:
            return self._sequence.revision
        ticket = _PendingChanges(merged(changes))
        self._waiting.append(ticket)
        self._wake.set()
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket.revision

    async def forget(self, revisions: Mapping[str, int]) -> None:
        """Remove keys that all candidates have. Args: revisions: of each key; one that was changed since stays.

        Raises: NoLongerMaster; EtcdError: etcd refuses it. Cancellation: some are removed.
        """
        pairs = list(revisions.items())
        for at in range(0, len(pairs), _MOST_FORGOTTEN):
            self._check()
            few = dict(pairs[at : at + _MOST_FORGOTTEN])
            try:
                await self._sequence.forget(few)
            except NoLongerMaster as loss:
                raise self._lose(loss) from None
            self._forgotten += len(few)
        if self._sequence.has_garbage:
            self._wake.set()

    async def read(self, prefixes: Sequence[str]) -> Dirty:
        """Return all that is committed under these prefixes, by this node or by masters before it; after `run` began.

        Raises: NoLongerMaster; DamagedFile: a value is not ours.
        """
        self._check()
        since = self._sequence.revision

        async def ask(asked: Get) -> GetReply:
            return await self._etcd.get(asked, since)

        try:
            return await read_with(ask, prefixes, since=since)
        except NoLongerMaster as loss:
            raise self._lose(loss) from None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the only writer; for `nursery.start`. It has begun when nothing of an earlier process can arrive.

        It ends when the mastership is lost; later commits are refused.

        Raises: NoLongerMaster: before it has begun. DamagedFile: parts in etcd are not ours.
        Cancellation: changes left here before it are still committed, shielded, until the deadline at the latest;
            later ones are refused.
        """
        try:
            await self._sequence.claim()
        except NoLongerMaster as loss:
            raise self._lose(loss) from None
        if self._sequence.has_garbage:
            self._wake.set()
        task_status.started()
        try:
            while self._loss is None:
                await self._wake.wait()
                await self._work()
        finally:
            self._is_closed = True
            with trio.CancelScope(shield=True):
                await self._commit_all()

    @property
    def state(self) -> CommitsState:
        lost = self._loss.message if self._loss is not None else ""
        return CommitsState(self._etcd.silent_since_s, self._is_full, lost)

    def statistics(self) -> CommitsStatistics:
        return CommitsStatistics(
            self._commits,
            self._failures,
            self._transactions,
            self._operations,
            self._etcd.retries,
            self._forgotten,
            len(self._waiting),
            self._durations.read(),
        )

    def _check(self) -> None:
        if self._loss is not None:
            raise self._loss

    def _lose(self, loss: NoLongerMaster) -> NoLongerMaster:
        """Return what callers are told from now on."""
        if self._loss is None:
            self._loss = loss
            self._wake.set()
        return self._loss

    async def _work(self) -> None:
        """Commit what waits, then clear garbage. Cancellation: only the latter."""
        self._wake = trio.Event()
        with trio.CancelScope(shield=True):
            await self._commit_all()
        try:
            await self._sequence.clear_garbage()
        except NoLongerMaster as loss:
            self._lose(loss)

    async def _commit_all(self) -> None:
        while self._waiting:
            count = group_length([ticket.changes for ticket in self._waiting])
            tickets, self._waiting = self._waiting[:count], self._waiting[count:]
            if not await self._commit_group(tickets):
                for ticket in tickets:
                    await self._commit_group([ticket])

    async def _commit_group(self, tickets: Sequence[_PendingChanges]) -> bool:
        """Return whether they have a result: not if etcd takes less in a transaction than it does by default."""
        try:
            self._check()
            revision = await self._carry_out(merged(change for ticket in tickets for change in ticket.changes))
        except NoLongerMaster as loss:
            self._answer(tickets, error=self._lose(loss))
        except EtcdFull as full:
            self._is_full = True
            self._answer(tickets, error=full)
        except TooLarge as error:
            if len(tickets) > 1:
                return False
            self._answer(tickets, error=_too_large(tickets[0], error))
        else:
            self._is_full = False
            self._answer(tickets, revision)
        return True

    async def _carry_out(self, changes: Sequence[KeyChange]) -> int:
        self._transactions += 1
        began_s = boottime()
        revision = await self._sequence.put(changes)
        self._durations.add(boottime() - began_s)
        self._operations += len(changes)
        return revision

    def _answer(self, tickets: Sequence[_PendingChanges], revision: int = 0, error: GantryError | None = None) -> None:
        self._commits += len(tickets)
        self._failures += len(tickets) if error is not None else 0
        for ticket in tickets:
            ticket.revision, ticket.error = revision, error
            ticket.done.set()


def _too_large(ticket: _PendingChanges, error: TooLarge) -> InvalidRequest:
    return InvalidRequest(
        f"a change of {len(ticket.changes)} files with {size_of(ticket.changes)} bytes is more than etcd takes "
        f"({error.message}); start etcd with its own limits for requests"
    )
