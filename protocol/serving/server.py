"""Serve a daemon's table on a Unix socket: one task per connection, one reply per call, in order.

Connections are bounded per user and in total (`protocol.serving.bounds`). An excess one is refused in its own
dialect, and the server goes on accepting users below their bounds. `protocol.serving.server` serves the others.

Source: DESIGN section 4; luxid.md 1.1-1.5; wconfd.md 1.1-1.6.
"""

import contextlib
import os
import resource
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from common.access import Access, Role
from common.errors import Denied, GantryError, InvalidRequest, TooBusy
from common.system.log import get_log
from common.system.shortages import SHORTAGES
from protocol.envelope import Call, CallBatch, Dialect, MalformedRequest, failure, read_message
from protocol.framing import ETX, MAX_MESSAGE, Framer, MessageTooLarge, pack
from protocol.peer import Peer, own_access, peer_of, with_role
from protocol.serving.bounds import (
    SMALL_BYTES,
    STALL_S,
    STRANGERS,
    Budget,
    BudgetLimits,
    ConnectionCounts,
    ConnectionLimits,
    Share,
)
from protocol.serving.route import Stream
from protocol.serving.service import Answer, HangUps, Line, Service
from protocol.unixsocket import identity_of, listen, remove

# One connection: calls come in, replies go out, in order, within the server's bounds.
#
# Theory. Speed comes from trying the kernel first: a receive or send that need not wait costs no
# trip through the scheduler. Fairness comes from counting: a task that had `EAGER_TURNS` such
# operations in a row yields to the others. Back-pressure comes for free: a peer that does
# not read fills only its own socket buffer.
#
# Nothing is read from a connection while a call is in progress. A call that changes something is carried
# out to its end even if its caller has gone meanwhile, and the loss is noticed when the reply is sent. A call
# that only waits, as its row in the table says, is given up at once (see `protocol.serving.service`).
#
# The bytes kept for a connection are bounded (`protocol.serving.bounds`): over the bound it waits or is refused. A
# large reply of rows is made while its reader takes it (`protocol.serving.route`).
#
# Source: DESIGN section 4; luxid.md 1.1-1.5; wconfd.md 1.1-1.6.


CHUNK: Final = 64 * 2**10
EAGER_TURNS: Final = 16
# bytes of a message from a caller without a role: enough to see in which dialect to refuse it
DENIED_LIMIT: Final = 64 * 2**10
# seconds for a message that is not small, while others want its room
SLOWEST_S: Final = 30.0

_log: Final = get_log(__name__)


@attrs.frozen
class ServerRules:
    """The rules for a daemon's connections."""

    # seconds without received bytes and without a call in progress
    idle_timeout_s: float = 180.0
    # seconds of each wait for a reader to take more of a reply
    send_timeout_s: float = 60.0
    # see `Service.answer`
    close_on_bad_arguments: bool = False
    access: Access = attrs.field(factory=own_access)
    socket_mode: int = 0o660
    backlog: int = 512
    message_limit: int = MAX_MESSAGE
    # called before anything is sent; it may end the process
    before_send: Callable[[], None] | None = None
    connections: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    budget: BudgetLimits = attrs.field(factory=BudgetLimits)


class CallerConnection:
    """One caller's connection; its creator closes the socket."""

    def __init__(
        self,
        sock: socket.socket,
        service: Service,
        rules: ServerRules,
        line: Line,
        peer: Peer,
        budget: Budget,
        share: Share,
    ) -> None:
        self._sock = sock
        self._line = line
        self._service = service
        self._rules = rules
        self._budget = budget
        self._share = share
        # start of the message being received, on trio's clock
        self._begun_at = 0.0
        self._peer = peer
        # number of receives and calls since this task last let others run
        self._eager_turns = 0
        self._scope = trio.CancelScope()
        # instant on trio's clock until which this waits for more bytes; None: a call is in progress
        self._idle_until: float | None = None

    def end_if_idle(self, now: float) -> float | None:
        """End the connection if it has waited for bytes for too long.

        Returns: the instant until which it still waits; None: it ends, or does not wait.
        """
        if self._idle_until is None or self._idle_until > now:
            return self._idle_until
        _log.debug("connection.idle", pid=self._peer.pid, uid=self._peer.uid)
        self._scope.cancel()
        return None

    async def run(self) -> None:
        """Serve calls until the peer closes, is idle for too long, or breaks a rule."""
        with self._scope:
            await self._serve_calls()

    async def _serve_calls(self) -> None:
        allowed = self._peer.role > Role.NONE
        framer = Framer(self._rules.message_limit if allowed else DENIED_LIMIT)
        answer = self._answer if allowed else self._deny
        try:
            while data := await self._receive():
                for payload in framer.feed(data):
                    self._budget.resize(self._share, len(payload))
                    if not await answer(payload):
                        return
                    self._budget.resize(self._share, 0)
                await self._keep_to_budget(framer.pending)
        except (MessageTooLarge, TooBusy) as error:
            framer = Framer()
            self._budget.resize(self._share, 0)
            await self._give_up(error if allowed else self._denial())

    async def _answer(self, payload: bytes) -> bool:
        """Carry out one message; return whether the connection may go on."""
        close = self._rules.close_on_bad_arguments
        answer = await self._service.answer(payload, self._peer, close_on_bad_arguments=close, line=self._line)
        if answer.stream is not None:
            if self._budget.has_room(self._share, len(answer.payload or b"")):
                await self._follow(answer.payload or b"", answer.stream)
            else:
                answer.stream.close()
                await self._refuse_reply(payload, answer)
            return False
        if answer.payload is not None:
            if not self._budget.has_room(self._share, len(answer.payload)):
                await self._refuse_reply(payload, answer)
            elif answer.rest is not None:
                return await self._send_pieces(answer.payload, answer.rest)
            else:
                await self._reply(answer.payload)
        await self._take_turn()
        return not answer.close

    async def _refuse_reply(self, to: bytes, answer: Answer) -> None:
        """Refuse to send a reply for which there is no room."""
        if answer.rest is not None:
            await answer.rest.aclose()
        await self._send(pack(failure(addressee(to), self._budget.refusal(self._peer.uid))))

    async def _reply(self, payload: bytes) -> None:
        self._budget.resize(self._share, len(payload))
        if len(payload) <= SMALL_BYTES:
            await self._send(pack(payload))
        else:
            # copying it would cost more than a second system call
            await self._send(payload)
            await self._send(ETX)

    async def _send_pieces(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> bool:
        """Send a reply that is made while it is sent; a failure in the middle ends the connection."""
        async with contextlib.aclosing(rest):
            await self._reply_part(first)
            try:
                async for piece in rest:
                    await self._reply_part(piece)
            except (GantryError, ValueError, TypeError) as error:
                _log.warning("reply.broken_off", pid=self._peer.pid, uid=self._peer.uid, error=error)
                return False
        await self._send(ETX)
        return True

    async def _reply_part(self, part: bytes) -> None:
        self._budget.resize(self._share, len(part))
        await self._send(part)

    async def _keep_to_budget(self, pending: int) -> None:
        """Account for an unfinished message, and wait until there is room for it.

        Raises: TooBusy: there is no room, or the message comes so slowly that others wait for it.
        """
        if pending <= SMALL_BYTES:
            self._budget.resize(self._share, 0)
            return
        now = trio.current_time()
        if not self._share.size:
            self._begun_at = now
        elif self._budget.is_wanted and now - self._begun_at > SLOWEST_S:
            raise TooBusy(f"the message took more than {SLOWEST_S:g} s, and others want the room; send it faster")
        if not self._budget.has_room(self._share, pending):
            await self._budget.room(self._share, pending)
        self._budget.resize(self._share, pending)

    async def _follow(self, first: bytes, stream: Stream[object]) -> None:
        """Send a stream until its end, or until the peer hangs up or sends anything."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_heard, nursery.cancel_scope)
                with contextlib.suppress(OSError):
                    await self._reply(first)
                    self._budget.resize(self._share, 0)
                    is_open = True
                    while is_open:
                        data, is_open = await stream.take()
                        await self._send(data)
                nursery.cancel_scope.cancel()
        finally:
            stream.close()

    async def _until_heard(self, scope: trio.CancelScope) -> None:
        await trio.lowlevel.wait_readable(self._sock)
        with contextlib.suppress(OSError):
            if not self._sock.recv(1, socket.MSG_PEEK):
                # the peer may have shut down only its sending side
                await self._line.hung_up()
        scope.cancel()

    async def _deny(self, payload: bytes) -> bool:
        await self._send(pack(failure(addressee(payload), self._denial())))
        return False

    def _denial(self) -> Denied:
        _log.warning("connection.denied", pid=self._peer.pid, uid=self._peer.uid, gid=self._peer.gid)
        return Denied(
            f"user {self._peer.uid} may not call this daemon; '[access]' in its settings gives users and groups roles"
        )

    async def _give_up(self, error: GantryError) -> None:
        """Refuse an unfinished message, and let the caller finish sending it so that it reads the reason."""
        plain = isinstance(error, InvalidRequest)
        await self._send(pack(failure(Dialect.GANETI, error, plain=plain)))
        with trio.move_on_after(self._rules.idle_timeout_s):
            while (data := await self._receive()) and ETX not in data:
                pass

    async def _take_turn(self) -> None:
        self._eager_turns += 1
        if self._eager_turns >= EAGER_TURNS:
            self._eager_turns = 0
            await trio.lowlevel.checkpoint()

    async def _receive(self) -> bytes:
        """Return the next bytes; empty at the end of the stream, or if the peer was idle for too long."""
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return await self._wait_and_receive()
        await self._take_turn()
        return data

    async def _wait_and_receive(self) -> bytes:
        self._eager_turns = 0
        self._idle_until = trio.current_time() + self._rules.idle_timeout_s
        while True:
            await self._while_not_stalled(trio.lowlevel.wait_readable)
            if self._scope.cancel_called:
                # bytes came in the very moment in which the wait was over
                return b""
            try:
                data = self._sock.recv(CHUNK)
            except BlockingIOError:
                continue
            self._idle_until = None
            return data

    async def _while_not_stalled(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Wait for the peer; if it uses much of the budget, only while no other connection wants room.

        Raises: TooBusy: the peer stalls, and another connection wants room.
        """
        while self._share.size:
            with trio.move_on_after(STALL_S):
                await wait(self._sock)
                return
            if self._budget.is_wanted:
                raise TooBusy(f"nothing moved on this connection for {STALL_S:g} s, and others want its room")
        await wait(self._sock)

    async def _send(self, data: bytes) -> None:
        """Raises: OSError: the peer is gone, or reads too slowly."""
        if self._rules.before_send is not None:
            self._rules.before_send()
        rest = memoryview(data)
        while True:
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                await self._wait_writable()
            if not rest:
                return
            await self._take_turn()

    async def _wait_writable(self) -> None:
        self._eager_turns = 0
        with trio.move_on_after(self._rules.send_timeout_s) as scope:
            try:
                await self._while_not_stalled(trio.lowlevel.wait_writable)
            except TooBusy as error:
                raise TimeoutError(error.message) from None
        if scope.cancelled_caught:
            raise TimeoutError(f"took nothing of a reply for {self._rules.send_timeout_s} s")


def addressee(payload: bytes) -> Call | MalformedRequest | Dialect:
    """The addressee of a reply to a message that is not carried out."""
    try:
        message = read_message(payload)
    except MalformedRequest as error:
        return error
    return Dialect.JSONRPC if isinstance(message, CallBatch) else message


# number of excess connections refused in their own dialect at a time; further ones are refused in Ganeti's, unread
REFUSED_AT_ONCE: Final = 16
REFUSAL_S: Final = 2.0
# descriptors reserved for all but connections: a group of writes has 256 files open at once,
# reading threads 40, starts of jobs 16
KEPT_DESCRIPTORS: Final = 400
# connections accepted in a row without waiting, so that a storm of them cannot starve the calls
ACCEPTS_AT_ONCE: Final = 32
ACCEPT_PAUSE_S: Final = 0.1


async def serve_unix(
    path: Path,
    service: Service,
    rules: ServerRules,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve calls at `path` until cancelled; started when the socket listens.

    Raises:
        Conflict: another daemon listens there, or the file there is not a socket.
        Unavailable: the socket cannot be made.
    Cancellation: stops accepting, removes the socket file, cancels the calls in progress and
        closes their connections.
    """
    listener = listen(path, rules.socket_mode, rules.backlog)
    hang_ups = HangUps()
    try:
        identity = identity_of(path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang_ups.run)
            task_status.started()
            server = _Server(service, rules, hang_ups, nursery)
            nursery.start_soon(server.end_idle)
            await server.accept_all(listener)
    finally:
        hang_ups.close()
        listener.close()
        remove(path, identity)


class _Server:
    """The state shared by the connections of a server."""

    def __init__(self, service: Service, rules: ServerRules, hang_ups: HangUps, nursery: trio.Nursery) -> None:
        self._service = service
        self._rules = rules
        self._hang_ups = hang_ups
        self._nursery = nursery
        self._admission = ConnectionCounts(rules.connections.within(_descriptors_for_peers()), os.getuid())
        self._budget = Budget(rules.budget)
        self._connections: dict[CallerConnection, None] = {}
        # set if there is one
        self._has_connections = trio.Event()
        self._refused = 0

    async def end_idle(self) -> None:
        """End connections that are idle for too long, until cancelled.

        One task for all: a deadline for each wait would cost a call more than its parsing. It wakes when the
        connection that had waited longest may have to end.
        """
        while True:
            await self._has_connections.wait()
            now = trio.current_time()
            ends = [end for each in self._connections if (end := each.end_if_idle(now)) is not None]
            await trio.sleep_until(min(ends, default=now + self._rules.idle_timeout_s))

    async def accept_all(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                for _ in range(ACCEPTS_AT_ONCE):
                    sock, _ = listener.accept()
                    self._take(sock)
            except BlockingIOError:
                continue
            except OSError as error:
                # a client that gave up while it waited (ECONNABORTED) is not a reason to stop
                if error.errno in SHORTAGES:
                    _log.warning("accept.failed", error=os.strerror(error.errno), retry_s=ACCEPT_PAUSE_S)
                    await trio.sleep(ACCEPT_PAUSE_S)

    def _take(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        peer = self._peer_of(sock)
        try:
            self._admission.enter(_counted_as(peer))
        except TooBusy as error:
            self._service.counts.connections_refused += 1
            self._refuse(sock, peer, error)
        else:
            self._service.counts.connections += 1
            self._nursery.start_soon(self._serve, sock, peer)

    def _peer_of(self, sock: socket.socket) -> Peer:
        return with_role(peer_of(sock), self._rules.access)

    async def _serve(self, sock: socket.socket, peer: Peer) -> None:
        line = Line(sock, self._hang_ups)
        share = Share(peer.uid)
        connection = CallerConnection(sock, self._service, self._rules, line, peer, self._budget, share)
        self._connections[connection] = None
        self._has_connections.set()
        try:
            await connection.run()
        except OSError as error:
            _log.debug("connection.lost", error=error)
        except Exception:
            _log.exception("connection.crashed")
        finally:
            del self._connections[connection]
            if not self._connections:
                self._has_connections = trio.Event()
            self._budget.resize(share, 0)
            self._admission.leave(_counted_as(peer))
            self._service.counts.connections -= 1
            line.close()
            sock.close()

    def _refuse(self, sock: socket.socket, peer: Peer, error: TooBusy) -> None:
        if not self._refused:
            # one log line for a storm of refusals
            _log.warning(
                "connection.refused", pid=peer.pid, uid=peer.uid, connections=self._admission.total, error=error
            )
        if self._refused < REFUSED_AT_ONCE:
            self._refused += 1
            self._nursery.start_soon(self._tell_refused, sock, error)
            return
        with contextlib.suppress(OSError):
            sock.send(pack(failure(Dialect.GANETI, error)))
        sock.close()

    async def _tell_refused(self, sock: socket.socket, error: TooBusy) -> None:
        """Wait briefly for the caller's request, to refuse it in its own dialect."""
        try:
            payload = await _first_message(sock)
            with contextlib.suppress(OSError):
                sock.send(pack(failure(addressee(payload), error)))
        finally:
            self._refused -= 1
            sock.close()


def _counted_as(peer: Peer) -> int:
    return peer.uid if peer.role > Role.NONE else STRANGERS


def _descriptors_for_peers() -> int:
    """The number of connections that leave this process enough descriptors for its work."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(limit - KEPT_DESCRIPTORS, limit // 2)


async def _first_message(sock: socket.socket) -> bytes:
    """Return the first message, or the part of it that arrived in time."""
    framer, data = Framer(DENIED_LIMIT), b""
    with trio.move_on_after(REFUSAL_S), contextlib.suppress(OSError, MessageTooLarge):
        while True:
            await trio.lowlevel.wait_readable(sock)
            piece = sock.recv(CHUNK)
            data += piece
            for payload in framer.feed(piece):
                return payload
            if not piece:
                break
    return data
