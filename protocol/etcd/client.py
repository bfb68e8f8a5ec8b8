"""Ask etcd from a trio program, whichever of its members replies.

    async with EtcdClient(EtcdAddress.of(settings)) as client:
        outcome = await client.transact(Transaction([Equals(key, Field.CREATED, 0)], [Put(key, value)]))

Theory. How long one member may take, and who is asked next: `protocol.etcd.asking`. A transaction may therefore be
carried out twice, or be refused the second time because the first has changed what it compares: callers tell by what
they read (`Transaction.otherwise`).

Source: lease.md 1, 2 and 5.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

import trio

from protocol.etcd import maintenance, questions
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.asking import Asker
from protocol.etcd.errors import Compacted
from protocol.etcd.kv import Found, Get, LeaseId, Outcome, Transaction
from protocol.etcd.leaderfirst import LeaderFirst
from protocol.etcd.maintenance import Alarm, MemberEntry, MemberStatus
from protocol.etcd.questions import Granted
from protocol.etcd.watching import Watching, open_watch

# a watch that was silent so long has ended, in seconds
SILENCE_S: Final = 60.0
# a member replies to nothing else while it defragments its file
DEFRAGMENT_S: Final = 120.0
_COMPACT_S: Final = 30.0


class EtcdClient:
    """Asks etcd; any number of tasks may do so at a time, each over a connection of its own, which is kept.

    Args of all methods:
        limit_s: seconds until the caller gives up; if left out, the time for each member and one more.
    Raises, all methods:
        EtcdUnknown: no member has given a reply that decides anything in time.
        EtcdFull, EtcdCorrupt, EtcdDenied, TooLarge, UnsafeRelease, EtcdError: etcd was not asked, or has refused.
    Raises, when made: InvalidRequest: the password or a certificate cannot be read.
    Cancellation: the request may be carried out nevertheless.
    """

    def __init__(self, address: EtcdAddress) -> None:
        self._asker = Asker(address)
        self.endpoints = address.endpoints
        self._leader = LeaderFirst(self.endpoints, self.status, self._asker.begin_with)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        self._asker.close()

    def turn(self) -> None:
        """Ask another member first from now on, if there is one."""
        self._asker.turn()

    @property
    def first(self) -> Endpoint:
        """The member that is asked first."""
        return self._asker.first

    async def ask_leader_first(self) -> None:
        """Find out in each new term of etcd who leads, and ask that member first; until cancelled."""
        await self._leader.run()

    async def get(self, asked: Get, limit_s: float | None = None) -> Found:
        """Read. Raises: Compacted."""
        found = await self._asker.ask(questions.get(asked), limit_s)
        self._leader.heard(found.header.raft_term)
        return found

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> Outcome:
        """Raises: LeaseGone: a key was to be put with a lease that is over."""
        outcome = await self._asker.ask(questions.transact(transaction), limit_s)
        self._leader.heard(outcome.header.raft_term)
        return outcome

    async def grant(self, ttl_s: int, limit_s: float | None = None) -> Granted:
        """Make a lease. A second one may be made, if the first reply was lost; it runs out."""
        return await self._asker.ask(questions.grant(ttl_s), limit_s)

    async def renew(self, lease: LeaseId, limit_s: float | None = None) -> float:
        """Return the seconds that the lease lives, counted from when this was called. Raises: LeaseGone."""
        return await self._asker.ask(questions.renew(lease), limit_s)

    async def revoke(self, lease: LeaseId, limit_s: float | None = None) -> None:
        """End a lease; its keys go with it. Raises: LeaseGone: it was over, perhaps by the same request."""
        await self._asker.ask(questions.revoke(lease), limit_s)

    @asynccontextmanager
    async def watch(self, prefix: str, after_revision: int, *, silence_s: float = SILENCE_S) -> AsyncIterator[Watching]:
        """Watch all keys that begin so, from the revision after this one on; it is only a hint to look.

            async with client.watch(keys.master, found.header.revision) as events:
                async for event in events: ...

        Args: silence_s: after so many seconds without an event the watch ends as well.
        Raises: also Compacted and WatchEnded, from the events: read anew, then watch anew.
        """
        connection, events = await open_watch(self._asker, questions.watch(prefix, after_revision), silence_s)
        try:
            yield events
        finally:
            connection.close()

    async def members(self, limit_s: float | None = None) -> Sequence[MemberEntry]:
        """The members as etcd knows them, running or not."""
        return await self._asker.ask(maintenance.members(), limit_s)

    def releases(self) -> Mapping[Endpoint, str]:
        """The releases of the members of the address that were connected to, as they said then."""
        return {each.endpoint: each.release for each in self._asker.members if each.release}

    async def status(self, endpoint: Endpoint, limit_s: float | None = None) -> MemberStatus:
        """What this member says of itself; it replies without a majority, too."""
        return await self._asker.ask_member(endpoint, maintenance.status(), limit_s)

    async def quota(self, endpoint: Endpoint, limit_s: float | None = None) -> int:
        """Bytes that this member's file may have, by its metrics; 0: it does not tell."""
        return maintenance.quota_of(await self._asker.fetch(endpoint, "/metrics", limit_s))

    async def alarms(self, limit_s: float | None = None) -> Sequence[Alarm]:
        return await self._asker.ask(maintenance.alarms(), limit_s)

    async def disarm(self, alarm: Alarm, limit_s: float | None = None) -> None:
        """Take an alarm back. Etcd that is still full raises it again with the next change."""
        await self._asker.ask(maintenance.disarm(alarm), limit_s)

    async def compact(self, revision: int, limit_s: float = _COMPACT_S) -> None:
        """Forget what keys were before this revision. That it is forgotten already is no error."""
        try:
            await self._asker.ask(maintenance.compact(revision), limit_s)
        except Compacted:
            return

    async def compact_at(self, endpoint: Endpoint, revision: int, limit_s: float = _COMPACT_S) -> None:
        """As `compact`; this member has forgotten it when this returns, whatever others have."""
        try:
            await self._asker.ask_member(endpoint, maintenance.compact(revision), limit_s)
        except Compacted:
            return

    async def defragment(self, endpoint: Endpoint, limit_s: float = DEFRAGMENT_S) -> None:
        """Give free space of this member's file back. It serves nobody meanwhile."""
        await self._asker.ask_member(endpoint, maintenance.defragment(), limit_s)

    async def move_leader(self, leader: Endpoint, member_id: str, limit_s: float | None = None) -> None:
        """Let another member lead. Args: leader: the one that leads now."""
        await self._asker.ask_member(leader, maintenance.move_leader(member_id), limit_s)
