"""Serve a daemon's table on a Unix socket: one task a connection, one reply a call, in order.

Theory. Speed comes from asking the kernel first: a receive or send that need not wait costs no
trip through the scheduler. Fairness is kept by counting those trips: who had `EAGER_TURNS` of
them in a row yields to the others. Back-pressure comes for free: a connection that is not
being read from fills its own socket buffer, and nobody else's.

Nothing is read from a connection while a call is in progress. A call that changes something is carried
out to its end also when its caller has gone meanwhile, and the loss is noticed when the reply is sent; one
that only waits, as its row in the table says, is given up at once (see `protocol.hangup`).

Source: DESIGN section 4; luxid.md 1.1-1.5; wconfd.md 1.1-1.6.
"""

import contextlib
import errno
import logging
import os
import socket
from pathlib import Path
from typing import Final

import attrs
import trio

from common.access import Access, Role
from common.errors import Denied, GantryError, InvalidRequest
from protocol.envelope import Batch, Call, Dialect, MalformedRequest, failure, read_message
from protocol.framing import ETX, MAX_MESSAGE, Framer, MessageTooLarge, pack
from protocol.hangup import HangUps, Line
from protocol.listening import identity_of, listen, remove
from protocol.peer import Peer, own_access, peer_of, with_role
from protocol.service import Handler, Route, Service
from protocol.stream import Stream

__all__ = ["Access", "Handler", "Peer", "Route", "ServerRules", "Service", "serve_unix"]

CHUNK: Final = 64 * 2**10
EAGER_TURNS: Final = 16
# of a caller that may not call: enough to see in which dialect to refuse it
DENIED_LIMIT: Final = 64 * 2**10
# in a row without waiting, so that a storm of connections cannot starve the calls
ACCEPTS_AT_ONCE: Final = 32
ACCEPT_PAUSE_S: Final = 0.1
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log: Final = logging.getLogger(__name__)


@attrs.frozen
class ServerRules:
    """How a daemon treats its connections."""

    # counts while nothing is received and no call is in progress
    idle_timeout_s: float = 180.0
    # of each wait for a reader to take more of a reply
    send_timeout_s: float = 60.0
    # see `Service.answer`
    close_on_bad_arguments: bool = False
    access: Access = attrs.field(factory=own_access)
    socket_mode: int = 0o660
    backlog: int = 512
    message_limit: int = MAX_MESSAGE


async def serve_unix(
    path: Path,
    service: Service,
    rules: ServerRules,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer calls at `path` until cancelled; started when the socket listens.

    Raises:
        Conflict: another daemon answers there, or the file there is no socket.
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
            await _accept_all(listener, nursery, service, rules, hang_ups)
    finally:
        hang_ups.close()
        listener.close()
        remove(path, identity)


async def _accept_all(
    listener: socket.socket, nursery: trio.Nursery, service: Service, rules: ServerRules, hang_ups: HangUps
) -> None:
    while True:
        await trio.lowlevel.wait_readable(listener)
        try:
            for _ in range(ACCEPTS_AT_ONCE):
                sock, _ = listener.accept()
                nursery.start_soon(_serve, sock, service, rules, hang_ups)
        except BlockingIOError:
            continue
        except OSError as error:
            # whoever gave up while it waited is no reason to stop (ECONNABORTED)
            if error.errno in _OUT_OF_RESOURCES:
                _log.warning("accept.failed error=%r retry_s=%s", os.strerror(error.errno), ACCEPT_PAUSE_S)
                await trio.sleep(ACCEPT_PAUSE_S)


async def _serve(sock: socket.socket, service: Service, rules: ServerRules, hang_ups: HangUps) -> None:
    line = Line(sock, hang_ups)
    try:
        sock.setblocking(False)
        await _Connection(sock, service, rules, line).run()
    except OSError as error:
        _log.debug("connection.lost error=%r", str(error))
    except Exception:
        _log.exception("connection.crashed")
    finally:
        line.close()
        sock.close()


class _Connection:
    """One caller's connection; whoever made it closes the socket."""

    def __init__(self, sock: socket.socket, service: Service, rules: ServerRules, line: Line) -> None:
        self._sock = sock
        self._line = line
        self._service = service
        self._rules = rules
        self._peer = with_role(peer_of(sock), rules.access)
        # receives and calls since this task last let others run
        self._eager_turns = 0

    async def run(self) -> None:
        """Answer calls until the peer closes, is idle for too long, or breaks a rule."""
        allowed = self._peer.role > Role.NONE
        framer = Framer(self._rules.message_limit if allowed else DENIED_LIMIT)
        answer = self._answer if allowed else self._deny
        try:
            while data := await self._receive():
                for payload in framer.feed(data):
                    if not await answer(payload):
                        return
        except MessageTooLarge as error:
            await self._give_up(error if allowed else self._denial())

    async def _answer(self, payload: bytes) -> bool:
        """Carry out one message; tell whether the connection may go on."""
        close = self._rules.close_on_bad_arguments
        answer = await self._service.answer(payload, self._peer, close_on_bad_arguments=close, line=self._line)
        if answer.stream is not None:
            await self._follow(answer.payload or b"", answer.stream)
            return False
        if answer.payload is not None:
            await self._send(pack(answer.payload))
        await self._take_turn()
        return not answer.close

    async def _follow(self, first: bytes, stream: Stream) -> None:
        """Send a stream until its end, or until the peer hangs up or says anything more."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_heard, nursery.cancel_scope)
                with contextlib.suppress(OSError):
                    await self._send(pack(first))
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
                # it may have ended only what it says
                await self._line.hung_up()
        scope.cancel()

    async def _deny(self, payload: bytes) -> bool:
        await self._send(pack(failure(_addressee(payload), self._denial())))
        return False

    def _denial(self) -> Denied:
        _log.warning("connection.denied %s gid=%d", self._peer, self._peer.gid)
        return Denied(
            f"user {self._peer.uid} may not call this daemon; '[access]' in its settings gives users and groups roles"
        )

    async def _give_up(self, error: GantryError) -> None:
        """Refuse a message without its end, and let the caller finish sending it so that it reads why."""
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
        """The next bytes; empty at the end of the stream, or when the peer was idle for too long."""
        try:
            data = self._sock.recv(CHUNK)
        except BlockingIOError:
            return await self._wait_and_receive()
        await self._take_turn()
        return data

    async def _wait_and_receive(self) -> bytes:
        self._eager_turns = 0
        with trio.move_on_after(self._rules.idle_timeout_s):
            while True:
                await trio.lowlevel.wait_readable(self._sock)
                try:
                    return self._sock.recv(CHUNK)
                except BlockingIOError:
                    continue
        _log.debug("connection.idle %s", self._peer)
        return b""

    async def _send(self, data: bytes) -> None:
        """Raises: OSError: the peer is gone, or reads too slowly."""
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
            await trio.lowlevel.wait_writable(self._sock)
        if scope.cancelled_caught:
            raise TimeoutError(f"took nothing of a reply for {self._rules.send_timeout_s} s")


def _addressee(payload: bytes) -> Call | MalformedRequest | Dialect:
    """Whom an answer to this message is for, when it is not even looked at."""
    try:
        message = read_message(payload)
    except MalformedRequest as error:
        return error
    return Dialect.JSONRPC if isinstance(message, Batch) else message
