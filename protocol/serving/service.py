"""A daemon's face: what becomes of a message, by the table of its routes.

The service handles whole messages; it knows no sockets. It is the only place that catches handlers'
failures: an exception of a handler becomes a reply, and the daemon lives on.

Source: DESIGN section 4.
"""

import errno
import functools
import os
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import attrs

from common.access import Role, check_role
from common.errors import Denied, GantryError, InternalError, InvalidRequest, Unavailable, UnknownMethod
from common.metrics.calls import CallTally
from common.system.log import get_log
from common.system.passing import PASSING
from protocol.envelope import (
    Batch,
    Call,
    Dialect,
    MalformedRequest,
    batch_reply,
    failure,
    notes_part,
    read_message,
    success,
    success_frame,
)
from protocol.messages import reply_to_wire
from protocol.peer import Peer
from protocol.serving.hangup import CallerGone, Line
from protocol.serving.itembound import ItemBound
from protocol.serving.pieces import AT_ONCE_BYTES, Pieces, take
from protocol.serving.route import AnyRoute
from protocol.serving.speaking import Speakers
from protocol.speaker import Speaker
from protocol.stream import Stream

# bound on the replies to a batch, which are sent as one list
BATCH_BYTES: Final = 16 * 2**20

# errors that say nothing about the call: also a disk without room, which somebody makes
_PASSING: Final = PASSING | {errno.ENOSPC, errno.EDQUOT}

_log: Final = get_log(__name__)


class MalformedArguments(InvalidRequest):
    """an argument whose inside only the handler can read is not well-formed"""


@attrs.frozen
class Answer:
    """The result of a message: the payload to send back, and whether to close the connection then."""

    # None: all calls were notifications, which get no reply, or the caller has gone
    payload: bytes | None
    close: bool = False
    # stream after the payload; the receiver closes it
    stream: Stream[object] | None = None
    # rest of the message that the payload begins; the receiver closes it
    rest: AsyncGenerator[bytes, None] | None = None
    # code of the error that the payload tells; empty: it tells none
    refused: str = ""


class Service:
    """Carries out the calls of a table of methods."""

    def __init__(
        self,
        routes: Sequence[AnyRoute],
        *,
        item_bound: "ItemBound | None" = None,
        tally: CallTally | None = None,
        speakers: Speakers | None = None,
    ) -> None:
        """Args: speakers: lets trusted callers call in the names of others; None: nobody may."""
        # counts for graphs; the server of the connections adds its own
        self.tally = tally or CallTally()
        self._speakers = speakers
        self._item_bound = item_bound
        self._routes = {route.method: route for route in routes}
        if len(self._routes) != len(routes):
            raise ValueError("a method is listed twice in the table")

    @property
    def roles(self) -> Mapping[str, Role]:
        """The role that a caller of each method needs."""
        return {method: route.role for method, route in self._routes.items()}

    @property
    def methods(self) -> frozenset[str]:
        """The names of all methods."""
        return frozenset(self._routes)

    async def answer(
        self, payload: bytes, peer: Peer, *, close_on_bad_arguments: bool = False, line: Line | None = None
    ) -> Answer:
        """Carry out one message, a call or a batch of them in order.

        Args:
            line: reports the peer's hang-up; without it a hang-up is not noticed.
            close_on_bad_arguments: in Ganeti's dialect, whether an unknown method or bad arguments
                get a plain text and the end of the connection (luxid.md 1.4), or an ordinary
                error (wconfd.md 1.5). A malformed request always gets the former.
        Raises: only the cancellation of the caller.
        Cancellation: reaches the handler; each shields what it must not leave half done.
        """
        try:
            message = read_message(payload)
        except MalformedRequest as error:
            self.tally.refuse(error.code)
            close = not error.is_call and (close_on_bad_arguments or not error.only_arguments)
            return _refuse(error, error, close=close)
        if isinstance(message, Batch):
            return await self._answer_batch(message, peer, line)
        return await self._answer_call(message, peer, close_on_bad_arguments, line)

    async def _answer_batch(self, batch: Batch, peer: Peer, line: Line | None) -> Answer:
        replies: list[bytes] = []
        size = 0
        for call in batch.calls:
            if (reply := await self._answer_element(call, peer, line, is_full=size > BATCH_BYTES)) is not None:
                replies.append(reply)
                size += len(reply)
        return Answer(batch_reply(replies) if replies else None)

    async def _answer_element(
        self, call: Call | MalformedRequest, peer: Peer, line: Line | None, *, is_full: bool
    ) -> bytes | None:
        if isinstance(call, MalformedRequest):
            self.tally.refuse(call.code)
            return failure(call, call)
        if is_full:
            # not carried out: its caller would not learn of its changes
            error = InvalidRequest(f"the replies to this batch exceed {BATCH_BYTES} bytes; send its calls in parts")
            return None if call.notification else failure(call, error)
        return await _alone(call, await self._answer_call(call, peer, False, line))

    async def _answer_call(self, call: Call, peer: Peer, close: bool, line: Line | None) -> Answer:
        try:
            if call.speaker is not None:
                peer = await self._speaking(call.speaker, peer)
            answer = await self._carry_out(call, peer, close, line)
        except GantryError as error:
            # from the look-up of the speaker: `_carry_out` raises none
            answer = _deny(call, peer, error) if isinstance(error, Denied) else _fail(call, error)
        except CallerGone:
            _log.debug("call.given_up", method=call.method, pid=peer.pid, uid=peer.uid)
            answer = Answer(None, close=True)
        except Exception as error:
            told = _shortage(call, error) or _log_bug(call, peer)
            answer = Answer(failure(call, told), refused=told.code)
        self.tally.calls += 1
        if answer.refused:
            self.tally.refuse(answer.refused)
        if call.notification:
            await _alone(call, answer)
            return Answer(None)
        return answer

    async def _speaking(self, speaker: Speaker, peer: Peer) -> Peer:
        """Raises: Denied, InvalidRequest: see `Speakers.speaking`."""
        if self._speakers is None:
            raise Denied("this daemon takes no calls in the name of others; call without 'speaker'")
        return await self._speakers.speaking(peer, speaker)

    async def _carry_out(self, call: Call, peer: Peer, close: bool, line: Line | None) -> Answer:
        try:
            route = self._route(call.method)
            check_role(peer.role, route.role, peer.caller, route.title)
            if self._item_bound is not None:
                self._item_bound.check(call)
            request = route.read(call.params)
        except InvalidRequest as error:
            return _refuse(call, error, close=close)
        except Denied as error:
            return _deny(call, peer, error)
        try:
            if line is not None and route.only_waits:
                reply = await line.while_connected(functools.partial(route.carry_out, request, peer))
            else:
                reply = await route.carry_out(request, peer)
            if isinstance(reply, Pieces):
                return await _begin(call, reply)
        except MalformedArguments as error:
            return _refuse(call, error, close=close)
        except Denied as error:
            return _deny(call, peer, error)
        except GantryError as error:
            return _fail(call, error)
        if isinstance(reply, Stream):
            return Answer(success(call, reply_to_wire(reply.first)), stream=reply)
        return Answer(success(call, reply_to_wire(reply)))

    def _route(self, method: str) -> AnyRoute:
        try:
            return self._routes[method]
        except KeyError:
            raise UnknownMethod(f"unknown method {method[:80]!r}") from None


def _shortage(call: Call, error: Exception) -> Unavailable | None:
    """The error for the caller when the system is short of a resource; None: the error is of another kind."""
    if not isinstance(error, OSError) or error.errno is None or error.errno not in _PASSING:
        return None
    reason = os.strerror(error.errno).lower()
    _log.warning("call.not_carried_out", method=call.method, error=error)
    return Unavailable(f"the daemon cannot do this just now: {reason}; try again")


def _refuse(to: Call | MalformedRequest, error: InvalidRequest, *, close: bool) -> Answer:
    # the JSON-RPC dialect has one shape for all errors and never needs to close the connection
    close = close and to.dialect is Dialect.GANETI
    return Answer(failure(to, error, plain=close), close, refused=error.code)


async def _begin(call: Call, reply: Pieces[object]) -> Answer:
    """The answer with a reply in pieces: whole if it is small, else its beginning."""
    message = _message(call, reply)
    payload, is_whole = await take(message, AT_ONCE_BYTES)
    return Answer(payload, rest=None if is_whole else message)


async def _message(call: Call, reply: Pieces[object]) -> AsyncGenerator[bytes, None]:
    head, tail = success_frame(call)
    yield head
    async with aclosing(reply.pieces) as pieces:
        async for piece in pieces:
            yield piece
    yield notes_part(reply.notes()) + tail


async def _alone(call: Call, answer: Answer) -> bytes | None:
    """The whole payload of an answer, for places where nothing can follow it."""
    if answer.rest is not None:
        return await _joined(call, answer.payload or b"", answer.rest)
    if answer.stream is None:
        return answer.payload
    answer.stream.close()
    return failure(call, InvalidRequest(f"{call.method} takes over the connection; send it alone, with an id"))


async def _joined(call: Call, payload: bytes, rest: AsyncGenerator[bytes, None]) -> bytes:
    async with aclosing(rest):
        if not call.notification:
            more, is_whole = await take(rest, BATCH_BYTES)
            if is_whole:
                return payload + more
    return failure(call, InvalidRequest(f"the reply to {call.method} exceeds {BATCH_BYTES} bytes; send it alone"))


def _deny(call: Call, peer: Peer, error: Denied) -> Answer:
    _log.warning(
        "call.denied",
        method=call.method,
        pid=peer.pid,
        uid=peer.uid,
        role=peer.role.word,
        reason=error.message,
        **peer.spoken_for,
    )
    return _fail(call, error)


def _fail(call: Call, error: GantryError) -> Answer:
    if error.code == "internal":
        _log.error("call.failed", method=call.method, error=error.message)
    return Answer(failure(call, error), refused=error.code)


def _log_bug(call: Call, peer: Peer) -> InternalError:
    bug_id = secrets.token_hex(4)
    _log.exception("call.crashed", id=bug_id, method=call.method, pid=peer.pid, uid=peer.uid)
    return InternalError(f"internal error {bug_id}; the log of the daemon has it under this id", id=bug_id)
