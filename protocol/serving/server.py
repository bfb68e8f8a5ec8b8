"""Serve a daemon's table on a Unix socket: one task per connection, one reply per call, in order.

Connections are bounded per user and in total (`protocol.serving.admission`). An excess one is refused in its own
dialect, and the server goes on accepting users below their bounds. `protocol.serving.connection` serves the others.

Source: DESIGN section 4; luxid.md 1.1-1.5; wconfd.md 1.1-1.6.
"""

import contextlib
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Final

import trio

from common.access import Access, Role
from common.errors import TooBusy
from common.system.log import get_log
from common.system.passing import SHORTAGES
from protocol.envelope import Dialect, failure
from protocol.framing import Framer, MessageTooLarge, pack
from protocol.peer import Peer, peer_of, with_role
from protocol.serving.admission import STRANGERS, Admission
from protocol.serving.budget import Budget, Share
from protocol.serving.connection import CHUNK, DENIED_LIMIT, EAGER_TURNS, Connection, ServerRules, addressee
from protocol.serving.hangup import HangUps, Line
from protocol.serving.listening import identity_of, listen, remove
from protocol.serving.route import Handler, Route
from protocol.serving.service import Service

__all__ = ["EAGER_TURNS", "Access", "Handler", "Peer", "Route", "ServerRules", "Service", "serve_unix"]

# number of excess connections refused in their own dialect at a time; further ones are refused in Ganeti's, unread
REFUSED_AT_ONCE: Final = 16
REFUSAL_S: Final = 2.0
# descriptors reserved for all but connections: a group of writes has 256 files open at once,
# reading threads 40, starts of jobs 16
KEPT_DESCRIPTORS: Final = 400
# connections accepted in a row without waiting, so that a storm of them cannot starve the calls
ACCEPTS_AT_ONCE: Final = 32
ACCEPT_PAUSE_S: Final = 0.1

_log: Final = get_log(__name__)


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
            await _Server(service, rules, hang_ups, nursery).accept_all(listener)
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
        self._admission = Admission(rules.connections.within(_descriptors_for_peers()), os.getuid())
        self._budget = Budget(rules.budget)
        self._refused = 0

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
            self._service.tally.connections_refused += 1
            self._refuse(sock, peer, error)
        else:
            self._service.tally.connections += 1
            self._nursery.start_soon(self._serve, sock, peer)

    def _peer_of(self, sock: socket.socket) -> Peer:
        return with_role(peer_of(sock), self._rules.access)

    async def _serve(self, sock: socket.socket, peer: Peer) -> None:
        line = Line(sock, self._hang_ups)
        share = Share(peer.uid)
        try:
            await Connection(sock, self._service, self._rules, line, peer, self._budget, share).run()
        except OSError as error:
            _log.debug("connection.lost", error=error)
        except Exception:
            _log.exception("connection.crashed")
        finally:
            self._budget.resize(share, 0)
            self._admission.leave(_counted_as(peer))
            self._service.tally.connections -= 1
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
