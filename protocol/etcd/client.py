"""Ask etcd from a trio program, whichever of its members replies.

    async with EtcdClient(EtcdAddress.of(settings)) as client:
        outcome = await client.transact(Transaction([Equals(key, Field.CREATED, 0)], [Put(key, value)]))

Theory. A member without a majority replies only after seven seconds, a stopped one never. So each request to one member
has a short limit of its own; then the same request goes to the next one, until the caller's time is over. A
transaction may therefore be carried out twice, or be refused the second time because the first has changed what it
compares: callers tell by what they read (`Transaction.otherwise`). All members serve the same data, so the client stays
with the one that has replied.

Source: lease.md 1, 2 and 5.
"""

import ssl
from types import TracebackType
from typing import Final, Self, TypeVar

import orjson
import trio

from common.system.log import get_log
from protocol.dial import pauses
from protocol.etcd import questions
from protocol.etcd.address import EtcdAddress
from protocol.etcd.errors import EtcdUnknown
from protocol.etcd.kv import Found, Get, LeaseId, Outcome, Transaction
from protocol.etcd.member import HttpReply, Member
from protocol.etcd.questions import Granted, Question
from protocol.etcd.refusals import Meaning, judge
from protocol.etcd.wire import Broken

R = TypeVar("R")
_OK: Final = 200
_NO_HEADERS: Final[dict[str, str]] = {}
_log: Final = get_log(__name__)


class EtcdClient:
    """Asks etcd; any number of tasks may do so at a time, each over a connection of its own, which is kept.

    Args of all methods:
        limit_s: seconds until the caller gives up; the time for each member and one more if left out.
    Raises, all methods:
        EtcdUnknown: no member has given a reply that decides anything in time.
        EtcdFull, EtcdCorrupt, EtcdDenied, TooLarge, EtcdError: etcd has certainly refused.
    Cancellation: the request may be carried out nevertheless.
    """

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        context = ssl.create_default_context() if any(each.is_tls for each in address.endpoints) else None
        self._members = [Member(each, context if each.is_tls else None) for each in address.endpoints]
        # index of the member that is asked first
        self._first = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        for member in self._members:
            member.close()

    async def get(self, asked: Get, limit_s: float | None = None) -> Found:
        """Read. Raises: Compacted."""
        return await self._ask(questions.get(asked), limit_s)

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> Outcome:
        return await self._ask(questions.transact(transaction), limit_s)

    async def grant(self, ttl_s: int, limit_s: float | None = None) -> Granted:
        """Make a lease. A second one may be made, if the first reply was lost; it runs out."""
        return await self._ask(questions.grant(ttl_s), limit_s)

    async def renew(self, lease: LeaseId, limit_s: float | None = None) -> float:
        """Return the seconds that the lease lives from when this was called. Raises: LeaseGone."""
        return await self._ask(questions.renew(lease), limit_s)

    async def revoke(self, lease: LeaseId, limit_s: float | None = None) -> None:
        """End a lease; its keys go with it. Raises: LeaseGone: it was over, perhaps by the same request."""
        await self._ask(questions.revoke(lease), limit_s)

    async def _ask(self, question: Question[R], limit_s: float | None) -> R:
        if limit_s is None:
            limit_s = self._address.request_limit_s * (len(self._members) + 1)
        deadline = trio.current_time() + limit_s
        reasons: dict[str, str] = {}
        for pause in pauses():
            for index in self._round():
                try:
                    return await self._attempt(index, question, deadline)
                except Broken as broken:
                    reasons[str(self._members[index].endpoint)] = str(broken)
                    self._avoid(index, str(broken))
                if trio.current_time() >= deadline:
                    raise _unknown(reasons)
            await trio.sleep_until(min(trio.current_time() + pause, deadline))
            if trio.current_time() >= deadline:
                break
        raise _unknown(reasons)

    def _round(self) -> list[int]:
        count = len(self._members)
        return [(self._first + step) % count for step in range(count)]

    def _avoid(self, index: int, reason: str) -> None:
        # another task may have turned to the next one already
        if self._first == index and len(self._members) > 1:
            self._first = (index + 1) % len(self._members)
            _log.info(
                "etcd.next",
                member=self._members[index].endpoint,
                next=self._members[self._first].endpoint,
                reason=reason,
            )

    async def _attempt(self, index: int, question: Question[R], deadline: float) -> R:
        """Raises: Broken: nothing is known. EtcdError: a certain refusal."""
        limit_s = self._address.request_limit_s
        with trio.CancelScope(deadline=min(trio.current_time() + limit_s, deadline)):
            reply = await self._members[index].ask(question.path, question.body, _NO_HEADERS)
            return _read(question, reply)
        raise Broken(f"no reply within {limit_s:g} s")


def _read(question: Question[R], reply: HttpReply) -> R:
    if reply.status != _OK:
        raise _refused(reply)
    try:
        found = orjson.loads(reply.body)
        # a stream begins well and reports its error in a line
        if "error" in found:
            raise _refused(reply)
        return question.read(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Broken(f"it replied with something else: {reply.body[:100]!r}") from error


def _refused(reply: HttpReply) -> Exception:
    refusal = judge(reply.status, reply.body)
    return Broken(refusal.text) if refusal.meaning is Meaning.UNKNOWN else refusal.error


def _unknown(reasons: dict[str, str]) -> EtcdUnknown:
    told = "; ".join(f"{member}: {reason}" for member, reason in reasons.items())
    return EtcdUnknown(f"no member of etcd has given an answer in time ({told or 'none was asked'}); is etcd running?")
