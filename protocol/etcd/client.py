"""Ask etcd from a trio program, whichever of its members replies.

    async with EtcdClient(EtcdAddress.of(settings)) as client:
        outcome = await client.transact(Transaction([Equals(key, Field.CREATED, 0)], [Put(key, value)]))

Theory. A member that does not reply in time is left for the next one (see below). A transaction may therefore be
carried out twice, or be refused the second time because the first has changed what it compares: callers tell by what
they read (`Transaction.otherwise`).

Source: lease.md 1, 2 and 5.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self, TypeVar

import orjson
import trio

from common.errors import GantryError
from common.system.log import get_log
from protocol.etcd import questions
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.credentials import EtcdCredentials, TlsContexts
from protocol.etcd.kv import (
    Compacted,
    EtcdUnknown,
    Get,
    GetReply,
    LeaseId,
    Transaction,
    TransactionReply,
    WatchEnded,
    WatchEvent,
)
from protocol.etcd.member import OK, ConnectionBroken, EtcdConnection, EtcdHttpReply, Member
from protocol.etcd.questions import (
    Alarm,
    EtcdQuestion,
    EtcdRefusal,
    Granted,
    Meaning,
    MemberEntry,
    MemberStatus,
    judge,
    judge_text,
)
from protocol.etcd.replyfields import flag, inner, text
from protocol.streamsocket import closing_unless_done
from protocol.unixsocket import pauses

# Ask the leader of etcd first, where it is known who that is.
#
# Theory. A member that does not lead passes each change on to the leader and waits for it: one way more between
# machines, and work for one member more. Every reply bears a term of etcd, and a term has at most one leader. So all
# members are asked once in each new term who leads, beside the requests, which wait for nothing: until the leader is
# found, they go where they went before. A term begins before its leader is elected, and a reply may bear it by then: as
# long as nobody says that it leads, members are asked again now and then. A leader that does not reply is left as any
# other member.
#
# Source: lease.md 1.


# seconds; nobody is asked more often
_PAUSE_S: Final = 0.5


class LeaderFirst:
    """Follows the leader; start `run`, and tell the term of each reply.

    Args:
        endpoints: of all members.
        ask: returns what a member says of itself, or raises GantryError.
        found: hears the endpoint of each new leader.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        ask: Callable[[Endpoint], Awaitable[MemberStatus]],
        found: Callable[[Endpoint], None],
    ) -> None:
        self._endpoints = endpoints
        self._ask = ask
        self._found = found
        # the highest one that a reply bore
        self._term = 0
        # whether its leader is found
        self._is_known = False
        self._is_new = trio.Event()

    def heard(self, term: int) -> None:
        """A reply bore this term."""
        if term > self._term:
            self._term = term
            self._is_known = False
        if not self._is_known:
            self._is_new.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._is_new.wait()
            self._is_new = trio.Event()
            async with trio.open_nursery() as nursery:
                for endpoint in self._endpoints:
                    nursery.start_soon(self._look, endpoint)
            if not self._is_known:
                await trio.sleep(_PAUSE_S)

    async def _look(self, endpoint: Endpoint) -> None:
        try:
            status = await self._ask(endpoint)
        except GantryError:
            return
        # one that is cut off may believe that it leads, in a term that is over
        if status.is_leader and status.header.raft_term >= self._term:
            self._is_known = True
            self._found(endpoint)


# A watch of keys: changes as they come, until it ends with an error.
#
# Theory. A watch is a hint to look, and no more: members have lost events, and a watch that was canceled leaves its
# connection open, as does a member that was stopped. So a watch that was silent for long ends as well, and whoever
# watches reads anew from time to time.
#
# Source: lease.md 1, 4 and 5.


# a member that has lost the leader ends the watch then
_HEADERS: Final[Mapping[str, str]] = {"Grpc-Metadata-hasleader": "true"}


class Watching:
    """The events of a watch, in order. It never ends by itself.

    Raises:
        Compacted: what happened after the revision is not there any more.
        WatchEnded: any other end; events may have been missed.
    """

    def __init__(
        self, connection: EtcdConnection, question: EtcdQuestion[Sequence[WatchEvent]], silence_s: float
    ) -> None:
        self._connection = connection
        self._question = question
        self._silence_s = silence_s
        self._events: deque[WatchEvent] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEvent:
        while not self._events:
            self._events.extend(await self._more())
        return self._events.popleft()

    async def _more(self) -> Sequence[WatchEvent]:
        try:
            with trio.move_on_after(self._silence_s):
                return _read_event(self._question, await self._connection.line())
        except ConnectionBroken as broken:
            raise WatchEnded(f"the watch has ended: {broken}") from broken
        raise WatchEnded(f"nothing was heard of the watch for {self._silence_s:g} s")


async def _open_watch(member: Member, question: EtcdQuestion[Sequence[WatchEvent]]) -> EtcdConnection | EtcdRefusal:
    """Returns: the connection, which the caller closes. Raises: ConnectionBroken, EtcdError."""
    connection = await member.open_stream(question.path, question.body, _HEADERS)
    if isinstance(connection, EtcdHttpReply):
        return _about_tokens(judge(connection.status, connection.body))
    with closing_unless_done(connection):
        refusal = _refusal(await connection.line())
    if refusal is None:
        return connection
    connection.close()
    return _about_tokens(refusal)


def _refusal(line: bytes) -> EtcdRefusal | None:
    """What the first line says against the watch; None: it was created."""
    try:
        told = orjson.loads(line)
        if _is_error(told):
            return judge(OK, line)
        result = inner(told, "result")
        if flag(result, "canceled"):
            return judge_text(text(result, "cancel_reason") or "canceled without a reason")
    except ValueError as error:
        raise ConnectionBroken(f"it replied with something else: {line[:100]!r}") from error
    return None


def _read_event(question: EtcdQuestion[Sequence[WatchEvent]], line: bytes) -> Sequence[WatchEvent]:
    try:
        told = orjson.loads(line)
        if _is_error(told):
            raise WatchEnded(f"etcd has ended the watch: {judge(OK, line).text}")
        return question.read(told)
    except ValueError as error:
        raise WatchEnded(f"the watch brings something else: {line[:100]!r}") from error


def _is_error(told: object) -> bool:
    return isinstance(told, dict) and "error" in told


# Ask members of etcd until one replies: turns, time limits, tokens.
#
# Theory. A member without a majority replies only after seven seconds, a stopped one never. So each request to one
# member has a short limit of its own; then the same request goes to the next one, until the caller's time is over. All
# members serve the same data, so it stays with the one that has replied. A token counts at the member that gave it, and
# only for a while: when a member asks for one, it is fetched there once, and the request is sent again.
#
# Source: lease.md 1, 2 and 5.


R = TypeVar("R")
# refusals that a token may change; without one, some releases deny instead of asking for it
ABOUT_TOKENS: Final = frozenset({Meaning.NO_TOKEN, Meaning.NO_USERS, Meaning.DENIED})
# a watch that was silent so long has ended, in seconds
SILENCE_S: Final = 60.0
# a member replies to nothing else while it defragments its file
DEFRAGMENT_S: Final = 120.0
_COMPACT_S: Final = 30.0
_log: Final = get_log(__name__)


class _NoReply(ConnectionBroken):
    pass


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
        self.endpoints = address.endpoints
        self._address = address
        self._credentials = EtcdCredentials(address) if address.user else None
        self._tls = TlsContexts(address) if any(each.is_tls for each in address.endpoints) else None
        self._members = {each: self._member(each) for each in address.endpoints}
        # of the member that is asked first
        self._first = 0
        self._leader = LeaderFirst(self.endpoints, self.status, self._begin_with)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        for member in self._members.values():
            member.close()

    def turn(self) -> None:
        """Ask another member first from now on, if there is one."""
        self._first = (self._first + 1) % len(self.endpoints)

    @property
    def first(self) -> Endpoint:
        """The member that is asked first."""
        return self.endpoints[self._first]

    async def ask_leader_first(self) -> None:
        """Find out in each new term of etcd who leads, and ask that member first; until cancelled."""
        await self._leader.run()

    async def get(self, asked: Get, limit_s: float | None = None) -> GetReply:
        """Read. Raises: Compacted."""
        found = await self._ask(questions.get(asked), limit_s)
        self._leader.heard(found.header.raft_term)
        return found

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        """Raises: LeaseGone: a key was to be put with a lease that is over."""
        outcome = await self._ask(questions.transact(transaction), limit_s)
        self._leader.heard(outcome.header.raft_term)
        return outcome

    async def grant(self, ttl_s: int, limit_s: float | None = None) -> Granted:
        """Make a lease. A second one may be made, if the first reply was lost; it runs out."""
        return await self._ask(questions.grant(ttl_s), limit_s)

    async def renew(self, lease: LeaseId, limit_s: float | None = None) -> float:
        """Return the seconds that the lease lives, counted from when this was called. Raises: LeaseGone."""
        return await self._ask(questions.renew(lease), limit_s)

    async def revoke(self, lease: LeaseId, limit_s: float | None = None) -> None:
        """End a lease; its keys go with it. Raises: LeaseGone: it was over, perhaps by the same request."""
        await self._ask(questions.revoke(lease), limit_s)

    @asynccontextmanager
    async def watch(self, prefix: str, after_revision: int, *, silence_s: float = SILENCE_S) -> AsyncIterator[Watching]:
        """Watch all keys that begin so, from the revision after this one on; it is only a hint to look.

            async with client.watch(keys.master, found.header.revision) as events:
                async for event in events: ...

        Args: silence_s: after so many seconds without an event the watch ends as well.
        Raises: also Compacted and WatchEnded, from the events: read anew, then watch anew.
        """
        question = questions.watch(prefix, after_revision)

        async def begin(member: Member) -> EtcdConnection:
            return await self._with_token(member, lambda: _open_watch(member, question))

        connection = await self._whichever(begin, None)
        try:
            yield Watching(connection, question, silence_s)
        finally:
            connection.close()

    async def members(self, limit_s: float | None = None) -> Sequence[MemberEntry]:
        """The members as etcd knows them, running or not."""
        return await self._ask(questions.members(), limit_s)

    def releases(self) -> Mapping[Endpoint, str]:
        """The releases of the members of the address that were connected to, as they said then."""
        members = map(self._members.__getitem__, self.endpoints)
        return {each.endpoint: each.release for each in members if each.release}

    async def status(self, endpoint: Endpoint, limit_s: float | None = None) -> MemberStatus:
        """What this member says of itself; it replies without a majority, too."""
        return await self._ask_member(endpoint, questions.status(), limit_s)

    async def quota(self, endpoint: Endpoint, limit_s: float | None = None) -> int:
        """Bytes that this member's file may have, by its metrics; 0: it does not tell."""

        async def fetch(member: Member) -> bytes:
            reply = await member.fetch("/metrics")
            if reply.status != OK:
                raise ConnectionBroken(f"HTTP {reply.status}")
            return reply.body

        return questions.quota_of(await self._once(endpoint, fetch, limit_s))

    async def alarms(self, limit_s: float | None = None) -> Sequence[Alarm]:
        return await self._ask(questions.alarms(), limit_s)

    async def disarm(self, alarm: Alarm, limit_s: float | None = None) -> None:
        """Take an alarm back. Etcd that is still full raises it again with the next change."""
        await self._ask(questions.disarm(alarm), limit_s)

    async def compact(self, revision: int, limit_s: float = _COMPACT_S) -> None:
        """Forget what keys were before this revision. That it is forgotten already is no error."""
        try:
            await self._ask(questions.compact(revision), limit_s)
        except Compacted:
            return

    async def compact_at(self, endpoint: Endpoint, revision: int, limit_s: float = _COMPACT_S) -> None:
        """As `compact`; this member has forgotten it when this returns, whatever others have."""
        try:
            await self._ask_member(endpoint, questions.compact(revision), limit_s)
        except Compacted:
            return

    async def defragment(self, endpoint: Endpoint, limit_s: float = DEFRAGMENT_S) -> None:
        """Give free space of this member's file back. It serves nobody meanwhile."""
        await self._ask_member(endpoint, questions.defragment(), limit_s)

    async def move_leader(self, leader: Endpoint, member_id: str, limit_s: float | None = None) -> None:
        """Let another member lead. Args: leader: the one that leads now."""
        await self._ask_member(leader, questions.move_leader(member_id), limit_s)

    async def _ask(self, question: EtcdQuestion[R], limit_s: float | None) -> R:
        """Ask whichever member replies. Raises: EtcdUnknown, and what the question's reading raises."""

        async def attempt(member: Member) -> R:
            return await self._answer(member, question)

        return await self._whichever(attempt, limit_s, math.inf if question.takes_long else None)

    async def _ask_member(self, endpoint: Endpoint, question: EtcdQuestion[R], limit_s: float | None) -> R:
        """Ask this member once, which need not be one of the address. Raises: as `_ask`."""
        return await self._once(endpoint, lambda member: self._answer(member, question), limit_s)

    async def _once(self, endpoint: Endpoint, attempt: Callable[[Member], Awaitable[R]], limit_s: float | None) -> R:
        member = self._members.get(endpoint)
        if member is None:
            member = self._members[endpoint] = self._member(endpoint)
        limit_s = self._address.request_limit_s if limit_s is None else limit_s
        try:
            return await _within(limit_s, attempt(member))
        except ConnectionBroken as broken:
            raise _unknown({endpoint: str(broken)}) from broken

    async def _whichever(
        self, attempt: Callable[[Member], Awaitable[R]], limit_s: float | None, each_s: float | None = None
    ) -> R:
        """Attempt it at one member after the other, again and again; each raises ConnectionBroken if nothing is known.

        Args: each_s: limit of one attempt; that of the address if left out.
        Raises: EtcdUnknown: the time is over.
        """
        if limit_s is None:
            limit_s = self._address.request_limit_s * (len(self.endpoints) + 1)
        deadline = trio.current_time() + limit_s
        each_s = self._address.request_limit_s if each_s is None else each_s
        reasons: dict[Endpoint, str] = {}
        for pause in pauses():
            for index in self._round():
                member = self._members[self.endpoints[index]]
                # this process may have stood still since it looked at the clock
                left_s = max(0.0, deadline - trio.current_time())
                try:
                    return await _within(min(each_s, left_s), attempt(member))
                except ConnectionBroken as broken:
                    # an attempt that the caller's limit has cut short tells less than the one before
                    if not (isinstance(broken, _NoReply) and left_s < each_s and member.endpoint in reasons):
                        reasons[member.endpoint] = str(broken)
                    self._avoid(index, str(broken))
                if trio.current_time() >= deadline:
                    raise _unknown(reasons)
            await trio.sleep_until(min(trio.current_time() + pause, deadline))
            if trio.current_time() >= deadline:
                break
        raise _unknown(reasons)

    def _member(self, endpoint: Endpoint) -> Member:
        tls = self._tls if endpoint.is_tls else None
        return Member(endpoint, tls, takes_all_releases=self._address.allow_broken_releases)

    def _round(self) -> Sequence[int]:
        count = len(self.endpoints)
        return [(self._first + step) % count for step in range(count)]

    def _begin_with(self, endpoint: Endpoint) -> None:
        self._first = self.endpoints.index(endpoint)

    def _avoid(self, index: int, reason: str) -> None:
        # another task may have turned to the next one already
        if self._first == index and len(self.endpoints) > 1:
            self._first = (index + 1) % len(self.endpoints)
            _log.info("etcd.next_member", member=self.endpoints[index], next=self.first, reason=reason)

    async def _answer(self, member: Member, question: EtcdQuestion[R]) -> R:
        async def ask() -> R | EtcdRefusal:
            return _read_reply(question, await member.ask(question.path, question.body))

        return await self._with_token(member, ask)

    async def _with_token(self, member: Member, attempt: Callable[[], Awaitable[R | EtcdRefusal]]) -> R:
        """Return what an attempt gives; it is made once more with another token if the member does not take this one.

        Raises: ConnectionBroken. EtcdDenied: there is no user, or it has no right, or the password is wrong.
        """
        token = member.token
        found = await attempt()
        if not isinstance(found, EtcdRefusal):
            return found
        if self._credentials is None or (token and found.meaning is Meaning.DENIED):
            raise found.error
        async with member.login_lock:
            # another task may have fetched one meanwhile
            if member.token == token:
                member.token = await self._authenticate(member, self._credentials)
        found = await attempt()
        if not isinstance(found, EtcdRefusal):
            return found
        if found.meaning is Meaning.DENIED:
            raise found.error
        raise ConnectionBroken(f"it does not take its own token: {found.text}")

    async def _authenticate(self, member: Member, who: EtcdCredentials) -> str:
        found = await _token(member, who)
        if isinstance(found, EtcdRefusal) and found.meaning is Meaning.DENIED and who.has_changed():
            found = await _token(member, who)
        if not isinstance(found, EtcdRefusal):
            return found
        if found.meaning is Meaning.NO_USERS:
            return ""
        raise found.error


async def _within(limit_s: float, attempt: Awaitable[R]) -> R:
    with trio.move_on_after(limit_s):
        return await attempt
    raise _NoReply(f"no reply within {limit_s:.3g} s")


async def _token(member: Member, who: EtcdCredentials) -> str | EtcdRefusal:
    question = questions.authenticate(who.user, who.password)
    reply = await member.ask(question.path, question.body, with_token=False)
    if reply.status == OK:
        return _value(question, reply)
    return _certain(judge(reply.status, reply.body))


def _read_reply(question: EtcdQuestion[R], reply: EtcdHttpReply) -> R | EtcdRefusal:
    """Returns: the value, or a refusal that a token may change. Raises: ConnectionBroken, and any other refusal."""
    # a stream begins well and reports its error in a line
    if reply.status == OK and not reply.body.startswith(b'{"error"'):
        return _value(question, reply)
    return _about_tokens(judge(reply.status, reply.body))


def _certain(refusal: EtcdRefusal) -> EtcdRefusal:
    """Raises: ConnectionBroken: it is not known what became of the request."""
    if refusal.meaning is Meaning.UNKNOWN:
        raise ConnectionBroken(refusal.text)
    return refusal


def _about_tokens(refusal: EtcdRefusal) -> EtcdRefusal:
    """The refusal, if a token may change it. Raises: ConnectionBroken, and any other refusal."""
    if _certain(refusal).meaning in ABOUT_TOKENS:
        return refusal
    raise refusal.error


def _value(question: EtcdQuestion[R], reply: EtcdHttpReply) -> R:
    try:
        return question.read(orjson.loads(reply.body))
    except orjson.JSONDecodeError as error:
        raise ConnectionBroken(f"it replied with something else: {reply.body[:100]!r}") from error
    except ValueError as error:
        raise ConnectionBroken(f"it replied with something else: {error}") from error


def _unknown(reasons: dict[Endpoint, str]) -> EtcdUnknown:
    told = "; ".join(f"{member}: {reason}" for member, reason in reasons.items())
    return EtcdUnknown(f"no member of etcd has given an answer in time ({told or 'none was asked'}); is etcd running?")
