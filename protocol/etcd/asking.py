"""Ask members of etcd until one replies: turns, time limits, tokens.

Theory. A member without a majority replies only after seven seconds, a stopped one never. So each request to one member
has a short limit of its own; then the same request goes to the next one, until the caller's time is over. All
members serve the same data, so it stays with the one that has replied. A token counts at the member that gave it, and
only for a while: when a member asks for one, it is fetched there once, and the request is sent again.

Source: lease.md 1, 2 and 5.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import orjson
import trio

from common.system.log import get_log
from protocol.dial import pauses
from protocol.etcd import questions
from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.credentials import Credentials
from protocol.etcd.errors import EtcdUnknown
from protocol.etcd.httpconnection import OK, HttpReply
from protocol.etcd.member import Member
from protocol.etcd.questions import Question
from protocol.etcd.refusals import Meaning, Refusal, judge
from protocol.etcd.tlscontexts import TlsContexts
from protocol.etcd.wire import Broken

R = TypeVar("R")
# refusals that a token may change; without one, some releases deny instead of asking for it
ABOUT_TOKENS: Final = frozenset({Meaning.NO_TOKEN, Meaning.NO_USERS, Meaning.DENIED})
_log: Final = get_log(__name__)


class _NoReply(Broken):
    pass


class Asker:
    """The members of one etcd, and which of them is asked. Raises: InvalidRequest: password or certificates."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._credentials = Credentials(address) if address.user else None
        self._tls = TlsContexts(address) if any(each.is_tls for each in address.endpoints) else None
        self._members = {each: self._member(each) for each in address.endpoints}
        self._order: Sequence[Member] = list(self._members.values())
        # index of the member that is asked first
        self._first = 0

    @property
    def members(self) -> Sequence[Member]:
        return self._order

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    async def ask(self, question: Question[R], limit_s: float | None) -> R:
        """Ask whichever member replies. Raises: EtcdUnknown, and what the question's reading raises."""

        async def attempt(member: Member) -> R:
            return await self._answer(member, question)

        return await self.whichever(attempt, limit_s, math.inf if question.takes_long else None)

    async def ask_member(self, endpoint: Endpoint, question: Question[R], limit_s: float | None) -> R:
        """Ask this member once, which need not be one of the address. Raises: as `ask`."""
        return await self._once(endpoint, lambda member: self._answer(member, question), limit_s)

    async def fetch(self, endpoint: Endpoint, path: str, limit_s: float | None) -> bytes:
        """GET a page of this member. Raises: EtcdUnknown."""

        async def attempt(member: Member) -> bytes:
            reply = await member.fetch(path)
            if reply.status != OK:
                raise Broken(f"HTTP {reply.status}")
            return reply.body

        return await self._once(endpoint, attempt, limit_s)

    async def _once(self, endpoint: Endpoint, attempt: Callable[[Member], Awaitable[R]], limit_s: float | None) -> R:
        member = self._members.get(endpoint)
        if member is None:
            member = self._members[endpoint] = self._member(endpoint)
        limit_s = self._address.request_limit_s if limit_s is None else limit_s
        try:
            return await _within(limit_s, attempt(member))
        except Broken as broken:
            raise _unknown({endpoint: str(broken)}) from broken

    async def whichever(
        self, attempt: Callable[[Member], Awaitable[R]], limit_s: float | None, each_s: float | None = None
    ) -> R:
        """Attempt it at one member after the other, again and again; each raises Broken if nothing is known.

        Args: each_s: limit of one attempt; that of the address if left out.
        Raises: EtcdUnknown: the time is over.
        """
        if limit_s is None:
            limit_s = self._address.request_limit_s * (len(self._order) + 1)
        deadline = trio.current_time() + limit_s
        each_s = self._address.request_limit_s if each_s is None else each_s
        reasons: dict[Endpoint, str] = {}
        for pause in pauses():
            for index in self._round():
                member = self._order[index]
                # this process may have stood still since it looked at the clock
                left_s = max(0.0, deadline - trio.current_time())
                try:
                    return await _within(min(each_s, left_s), attempt(member))
                except Broken as broken:
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
        count = len(self._order)
        return [(self._first + step) % count for step in range(count)]

    @property
    def first(self) -> Endpoint:
        """The member that is asked first."""
        return self._order[self._first].endpoint

    def begin_with(self, endpoint: Endpoint) -> None:
        """Ask this member of the address first from now on."""
        self._first = next(index for index, member in enumerate(self._order) if member.endpoint == endpoint)

    def turn(self) -> None:
        """Ask the next member first from now on."""
        self._first = (self._first + 1) % len(self._order)

    def _avoid(self, index: int, reason: str) -> None:
        # another task may have turned to the next one already
        if self._first == index and len(self._order) > 1:
            self._first = (index + 1) % len(self._order)
            next_one = self._order[self._first].endpoint
            _log.info("etcd.next_member", member=self._order[index].endpoint, next=next_one, reason=reason)

    async def _answer(self, member: Member, question: Question[R]) -> R:
        token = member.token
        found = _read(question, await member.ask(question.path, question.body))
        if not isinstance(found, Refusal):
            return found
        await self.login(member, token, found)
        found = _read(question, await member.ask(question.path, question.body))
        if isinstance(found, Refusal):
            raise of_own_token(found)
        return found

    async def login(self, member: Member, token: str, refusal: Refusal) -> None:
        """Get a token of this member that is not this one, unless another task has done so.

        Args: refusal: what it said to the token; one of `ABOUT_TOKENS`.
        Raises: Broken. EtcdDenied: there is no user, or it has no right, or the password is wrong.
        """
        if self._credentials is None or (token and refusal.meaning is Meaning.DENIED):
            raise refusal.error
        async with member.login_lock:
            if member.token == token:
                member.token = await self._authenticate(member, self._credentials)

    async def _authenticate(self, member: Member, who: Credentials) -> str:
        found = await _token(member, who)
        if isinstance(found, Refusal) and found.meaning is Meaning.DENIED and who.has_changed():
            found = await _token(member, who)
        if not isinstance(found, Refusal):
            return found
        if found.meaning is Meaning.NO_USERS:
            return ""
        raise found.error


def of_own_token(refusal: Refusal) -> Exception:
    """The error that a refusal of a token means that the member has just given: Broken, or the refusal's."""
    if refusal.meaning is Meaning.DENIED:
        return refusal.error
    return Broken(f"it does not take its own token: {refusal.text}")


async def _within(limit_s: float, attempt: Awaitable[R]) -> R:
    with trio.move_on_after(limit_s):
        return await attempt
    raise _NoReply(f"no reply within {limit_s:.3g} s")


async def _token(member: Member, who: Credentials) -> str | Refusal:
    question = questions.authenticate(who.user, who.password)
    reply = await member.ask(question.path, question.body, with_token=False)
    if reply.status == OK:
        return _value(question, reply)
    refusal = judge(reply.status, reply.body)
    if refusal.meaning is Meaning.UNKNOWN:
        raise Broken(refusal.text)
    return refusal


def _read(question: Question[R], reply: HttpReply) -> R | Refusal:
    """Returns: the value, or what must be judged by who asked. Raises: Broken, and any other refusal."""
    # a stream begins well and reports its error in a line
    if reply.status == OK and not reply.body.startswith(b'{"error"'):
        return _value(question, reply)
    refusal = judge(reply.status, reply.body)
    if refusal.meaning is Meaning.UNKNOWN:
        raise Broken(refusal.text)
    if refusal.meaning in ABOUT_TOKENS:
        return refusal
    raise refusal.error


def _value(question: Question[R], reply: HttpReply) -> R:
    try:
        return question.read(orjson.loads(reply.body))
    except orjson.JSONDecodeError as error:
        raise Broken(f"it replied with something else: {reply.body[:100]!r}") from error
    except ValueError as error:
        raise Broken(f"it replied with something else: {error}") from error


def _unknown(reasons: dict[Endpoint, str]) -> EtcdUnknown:
    told = "; ".join(f"{member}: {reason}" for member, reason in reasons.items())
    return EtcdUnknown(f"no member of etcd has given an answer in time ({told or 'none was asked'}); is etcd running?")
