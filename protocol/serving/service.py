"""A daemon's face: what becomes of a message, by the table of its routes.

The service handles whole messages; it knows no sockets. It is the only place that catches handlers'
failures: an exception of a handler becomes a reply, and the daemon lives on.

A call that changes state may be delivered twice, since a client that has lost its connection sends it again. It is
carried out to its end, whoever hangs up; a call that only waits (its row says so) is given up then.

Source: DESIGN section 4.
"""

import contextlib
import errno
import functools
import os
import secrets
import select
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import attrs
import trio

from common.access import Access, Role, caller_text, check_role
from common.errors import DamagedFile, Denied, GantryError, InternalError, InvalidRequest, Unavailable, UnknownMethod
from common.metrics import DAEMON, Metrics, counter, gauge
from common.paths import Paths
from common.queue.reasons import NO_UID
from common.system.accounts import groups_of, user_named
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.shortages import PASSING
from common.system.stamps import Stamp, inode_stamp_at, is_settled
from common.webaccess import tokens, users
from common.webaccess.folder import read_bounded
from common.webaccess.rights import Grants
from common.wire import unstructure
from protocol.envelope import (
    Call,
    CallBatch,
    Dialect,
    MalformedRequest,
    batch_reply,
    failure,
    notes_part,
    read_message,
    success,
    success_frame,
)
from protocol.peer import Peer, Speaker
from protocol.serving.route import AT_ONCE_BYTES, AnyRoute, Pieces, Stream, take

# Calls in the name of others: who may make them, and with which rights.
#
# Theory. A gateway that has checked a caller itself (rapid, over HTTP) says with each call for whom it is. From there
# on the call is that user's: the peer that handlers see has the Unix user's number and groups, not the gateway's. A
# speaker without a Unix user has a number that no user has, and so owns nothing. A gateway can lend no right that it
# does not have, and nobody can lend the daemons' own.
#
# A rapid that has a user of its own is believed less. It lends rights that it does not have, but only those which the
# files of users and tokens give to the name, with the Unix user there; these files it cannot write. So whoever has
# taken it over can be each HTTP user and each token, and nobody else. A name that is in neither file, as that of a user
# who calls rapid over its Unix socket, may read as a stranger does.
#
# Source: DESIGN sections 4 and 15.


# seconds for which a user who was looked up is believed to be the same
KEPT_S: Final = 5.0
_KEPT_AT_MOST: Final = 1000


@attrs.frozen
class _Account:
    """A user or a token of the HTTP interface."""

    grants: Grants
    # seconds since the epoch; None: never
    expires_at: float | None = None


class AccountRoles:
    """What the files of users and tokens give to each name; read again when they have changed.

    Args: has_ganetis_rule: whether all callers see and do all, without being an account (`[rapid] ganeti_rights`).
    """

    def __init__(self, paths: Paths, *, has_ganetis_rule: bool = False) -> None:
        self._users = paths.rapi_users
        self._tokens = paths.rapi_tokens
        self._has_ganetis_rule = has_ganetis_rule
        self._stamps: tuple[Stamp, Stamp] | None = None
        self._by_name: dict[str, list[_Account]] = {}

    def believed(self, speaker: Speaker) -> Speaker:
        """The speaker with no more rights than the files give; without Unix user if it is not the one there.

        Files that cannot be read are as they were read before.
        """
        try:
            self._refresh()
        except (DamagedFile, OSError) as error:
            _log.error("access.file_not_read", reason=error, effect="all stays as it was read before")
        now = time.time()
        found = [
            account.grants.rights.greatest
            for account in self._by_name.get(speaker.name, ())
            if account.grants.unix_user == speaker.login and (account.expires_at is None or now < account.expires_at)
        ]
        everybody = Role.ADMIN if self._has_ganetis_rule else Role.READ
        role = min(speaker.role, max((everybody, *found)))
        return attrs.evolve(speaker, role=role, login=speaker.login if found else None)

    def _refresh(self) -> None:
        """Raises: DamagedFile, OSError."""
        stamps = inode_stamp_at(self._users), inode_stamp_at(self._tokens)
        if stamps == self._stamps:
            return
        found: dict[str, list[_Account]] = {}
        for user in users.read_content(read_bounded(self._users) or b"", str(self._users)).by_name.values():
            found.setdefault(user.name, []).append(_Account(user.grants))
        for token in tokens.read_content(read_bounded(self._tokens), str(self._tokens)):
            if token.revoked_at is None:
                found.setdefault(token.name, []).append(_Account(token.grants, token.expires_at))
        self._by_name = found
        self._stamps = stamps if all(map(is_settled, stamps)) else None


@attrs.frozen
class _UnixUser:
    uid: int
    gid: int
    groups: frozenset[int]
    # time.monotonic() of the look-up
    found_at: float


class Speakers:
    """Turns a call of a trusted program into one of the user for whom it speaks.

    Args: accounts: bound of what a gateway with a user of its own may say; None: there is none.
    """

    def __init__(self, access: Access, accounts: AccountRoles | None = None) -> None:
        self._access = access
        self._accounts = accounts
        self._known: dict[str, _UnixUser] = {}

    async def speaking(self, peer: Peer, speaker: Speaker) -> Peer:
        """The peer as which the call is carried out.

        Raises: Denied: the caller may not speak for others, or has less rights than the Unix user.
            InvalidRequest: there is no such Unix user. Unavailable: users cannot be read now; nothing is remembered.
        """
        if self._accounts is not None and peer.uid == self._access.gateway:
            believed = self._accounts.believed(speaker)
            return await self._as(peer, believed, min(believed.role, Role.ADMIN))
        if not self._access.may_speak_for_others(peer.uid):
            raise Denied(
                f"user {peer.uid} may not call in the name of {caller_text(speaker.name)}; 'trusted' in '[access]' of "
                "the settings names those who may"
            )
        if speaker.login is not None:
            user = await self._user(speaker.login)
            if self._access.role_of(user.uid, user.groups) > max(peer.role, Role.ADMIN):
                raise Denied(f"{speaker.login!r} has all rights; nobody else can call in that name")
        return await self._as(peer, speaker, min(peer.role, speaker.role, Role.ADMIN))

    async def _as(self, peer: Peer, speaker: Speaker, role: Role) -> Peer:
        """Raises: InvalidRequest: there is no such Unix user. Unavailable."""
        if speaker.login is None:
            return Peer(peer.pid, NO_UID, NO_UID, role=role, speaker=speaker, by=peer)
        user = await self._user(speaker.login)
        return Peer(peer.pid, user.uid, user.gid, user.groups, role, speaker, peer)

    async def _user(self, login: str) -> _UnixUser:
        found = self._known.get(login)
        if found is None or time.monotonic() - found.found_at > KEPT_S:
            found = await in_thread(_look_up, login)
            if len(self._known) >= _KEPT_AT_MOST:
                self._known.clear()
            self._known[login] = found
        return found


def _look_up(login: str) -> _UnixUser:
    """Raises: InvalidRequest: there is no such user. Unavailable: users cannot be read now."""
    if (found := user_named(login)) is None:
        raise InvalidRequest(f"there is no user {login!r:.80} on this machine")
    return _UnixUser(found.pw_uid, found.pw_gid, frozenset(groups_of(found)), time.monotonic())


# How long the lists among a call's arguments may be.
#
# Source: DESIGN section 4.


@attrs.frozen
class ItemBound:
    """A bound on the length of lists among a call's arguments, so that no call occupies the daemon for long."""

    count: int
    # key of the setting
    key: str

    def check(self, call: Call) -> None:
        """Raises: InvalidRequest: a list is too long; the message has its length and the bound."""
        for value in call.params.values() if isinstance(call.params, dict) else call.params:
            if isinstance(value, list) and len(value) > self.count:
                raise InvalidRequest(
                    f"an argument of {call.method} has {len(value)} items, of at most {self.count}; "
                    f"call several times, or raise '{self.key}' in '[limits]'",
                    limit=self.count,
                )


# Notice that a peer has hung up while its call is carried out, without reading from its connection.
#
# Theory. Reading would not tell: pipelined calls lie in the socket and keep it readable, and a
# peer that has only shut down its sending side (`socat`, `nc`) still wants its reply. The kernel tells the cases
# apart: for a Unix socket it reports EPOLLHUP when both directions are shut, as by the death of the peer or its
# close(), but not when only the sending side is shut. epoll always reports EPOLLHUP, even if no event is
# requested. So all connections of a server are in one epoll of their own that requests no events; arriving data
# does not wake it, and one task waits for all. A connection is added by its first call that waits, once;
# so a waiter costs no task, and only the first one costs a system call.
#
# Source: epoll_ctl(2), `EPOLLHUP`; unix(7); DESIGN section 4.


R = TypeVar("R")


class CallerGone(Exception):
    """The peer hung up, so the reply has no reader."""


class HangUps:
    """The connections of one server whose hang-up is to be noticed; close it after all of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        # descriptor -> its line
        self._lines: dict[int, Line] = {}

    def __len__(self) -> int:
        """The number of watched connections."""
        return len(self._lines)

    async def run(self) -> None:
        """Report hang-ups to the lines, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll)
            # no checkpoint between the poll and the look-ups: a descriptor still means the same connection
            for fd, _ in self._epoll.poll(0):
                self._lines[fd].hang_up()

    def close(self) -> None:
        self._epoll.close()

    def add(self, fd: int, line: "Line") -> None:
        # edge-triggered: reported once, also to a line without a waiting call at that moment
        self._epoll.register(fd, select.EPOLLET)
        self._lines[fd] = line

    def remove(self, fd: int) -> None:
        del self._lines[fd]
        self._epoll.unregister(fd)


class Line:
    """One connection, for a call that waits on behalf of its peer; close it before the socket."""

    def __init__(self, sock: socket.socket, hang_ups: HangUps) -> None:
        self._fd = sock.fileno()
        self._hang_ups = hang_ups
        self._is_watched = False
        self._is_gone = False
        # cancel scope of the waiting call
        self._scope: trio.CancelScope | None = None

    async def while_connected(self, wait: Callable[[], Awaitable[R]]) -> R:
        """Run `wait`, unless the peer hangs up; one at a time.

        Raises: CallerGone: `wait` was cancelled, because the peer hung up.
        """
        if not self._is_watched:
            self._hang_ups.add(self._fd, self)
            self._is_watched = True
        with trio.CancelScope() as self._scope:
            if self._is_gone:
                self._scope.cancel()
            try:
                return await wait()
            finally:
                self._scope = None
        raise CallerGone

    async def hung_up(self) -> None:
        """Wait until the peer has hung up."""
        with contextlib.suppress(CallerGone):
            await self.while_connected(trio.sleep_forever)

    def hang_up(self) -> None:
        """Record that the peer has gone."""
        self._is_gone = True
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        """Forget the connection; harmless when repeated."""
        if self._is_watched:
            self._hang_ups.remove(self._fd)
            self._is_watched = False


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


@attrs.define
class CallCounts(Metrics):
    """The calls and connections of a server since its start."""

    calls: int = counter("calls", "Calls over the daemon's Unix socket.", DAEMON)
    # by the code of the error (`common.errors`)
    refused: Counter[str] = counter("calls_refused", "Calls that failed, by the code of the error.", DAEMON, "code")
    # open ones
    connections: int = gauge("connections", "Connections to the daemon's Unix socket.", DAEMON)
    connections_refused: int = counter("connections_refused", "Connections beyond the daemon's bounds.", DAEMON)


class Service:
    """Carries out the calls of a table of methods."""

    def __init__(
        self,
        routes: Sequence[AnyRoute],
        *,
        item_bound: "ItemBound | None" = None,
        counts: CallCounts | None = None,
        speakers: Speakers | None = None,
    ) -> None:
        """Args: speakers: lets trusted callers call in the names of others; None: nobody may."""
        # counts for graphs; the server of the connections adds its own
        self.counts = counts or CallCounts()
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
            self.counts.refused[error.code] += 1
            close = not error.is_call and (close_on_bad_arguments or not error.only_arguments)
            return _refuse(error, error, close=close)
        if isinstance(message, CallBatch):
            return await self._answer_batch(message, peer, line)
        return await self._answer_call(message, peer, close_on_bad_arguments, line)

    async def _answer_batch(self, batch: CallBatch, peer: Peer, line: Line | None) -> Answer:
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
            self.counts.refused[call.code] += 1
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
        self.counts.calls += 1
        if answer.refused:
            self.counts.refused[answer.refused] += 1
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
            return Answer(success(call, unstructure(reply.first)), stream=reply)
        return Answer(success(call, unstructure(reply)))

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
