"""Accept connections, at most so many, and speak HTTP on each.

Theory. Beyond the bound callers wait in the kernel's queue; without a descriptor the server waits, too. A peer that is
silent in its handshake is cut off soon. TLS is ended without waiting for the peer's farewell, which may never come; the
lengths in HTTP show a message that was cut. A host that vanished without a word is noticed by the kernel.
"""

import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from common.errors import Unavailable
from common.jsontext import ascii_json
from common.system.log import get_log
from common.system.shortages import SHORTAGES
from protocol.http.body import Bodies, HungUp
from protocol.http.connection import (
    Application,
    DrawFailure,
    HttpConnection,
    Receive,
    Scope,
    Send,
    Serving,
    plain_failure,
)
from protocol.peer import peer_of
from protocol.streamsocket import StreamSocket

# The places for connections: at most so many, and an idle one is closed for a new one.
#
# Theory. A connection on which no request is under way, or whose handshake is not over, holds a place for nothing:
# where that is allowed, the one that has been so for the longest is closed when a new one needs its place. If all have
# requests under way, a few more are let in, to be told so.


_log: Final = get_log(__name__)


@attrs.define(eq=False)
class ConnectionSlot:
    """The place of one connection."""

    # cancelled when the place is given to another one
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    # whether the connection is there only to be told that there is no room
    is_spare: bool = False
    has_ended: bool = False


class ConnectionSlots:
    """For one event loop.

    Args: spare: places beyond `limit` for connections that are refused; 0: further ones wait, and none is closed.
    """

    def __init__(self, limit: int, spare: int) -> None:
        self._limit = limit
        self._spare = spare
        self._free = trio.Semaphore(limit + spare)
        # places of connections without a request, the oldest first
        self._idle: dict[ConnectionSlot, None] = {}
        self._is_full = False
        # connections there are, without those that are being closed for others
        self.taken = 0

    async def wait(self) -> None:
        """Wait for a place; `hold` or `give_back` must follow."""
        if self._free.value:
            self._is_full = False
        elif not self._is_full:
            self._is_full = True
            _log.warning("connections.full", max_clients=self._limit, effect="further callers wait")
        await self._free.acquire()

    def give_back(self) -> None:
        """Nobody came for the place."""
        self._free.release()

    @contextmanager
    def hold(self) -> Iterator[ConnectionSlot]:
        """The place of a connection while the context lasts, which ends early if another one needs it."""
        if self._spare and self.taken >= self._limit and self._idle:
            self._end(next(iter(self._idle)))
        place = ConnectionSlot(is_spare=self._spare > 0 and self.taken >= self._limit)
        self.taken += 1
        self._idle[place] = None
        try:
            with place.scope:
                yield place
        finally:
            self._end(place)
            self._free.release()

    def set_idle(self, place: ConnectionSlot, is_idle: bool) -> None:
        """Note whether no request is under way on the connection."""
        self._idle.pop(place, None)
        if is_idle and not place.has_ended:
            self._idle[place] = None

    def _end(self, place: ConnectionSlot) -> None:
        if not place.has_ended:
            place.has_ended = True
            self._idle.pop(place, None)
            self.taken -= 1
            place.scope.cancel()


_BACKLOG: Final = 1024
_ACCEPT_PAUSE_S: Final = 0.1
# key in the state of requests on a connection for which there is no room
CROWDED: Final = "crowded"
# silence after which the kernel asks whether the peer's host is there, and time for its replies, in milliseconds
_KEEPALIVE_S: Final = 30
_GONE_MS: Final = 60_000


class ServerIdentity(Protocol):
    """The certificate that a server shows."""

    def context(self) -> ssl.SSLContext:
        """The TLS context for a new connection."""
        ...


class ConnectionRules(Protocol):
    """Bounds of the connections."""

    # connections at once, also those whose handshake is not over
    @property
    def max_clients(self) -> int: ...

    @property
    def handshake_timeout_s(self) -> float: ...

    # time without a request after which a connection is closed
    @property
    def idle_timeout_s(self) -> float: ...

    # time for requests under way when the server stops
    @property
    def stop_timeout_s(self) -> float: ...


# facts about a connection that the application finds in the state of each request
Describe = Callable[[socket.socket], Mapping[str, object]]


def _nothing(_: socket.socket) -> Mapping[str, object]:
    return {}


def open_listener(address: str, port: int, *, where: str) -> socket.socket:
    """Make the socket that listens; the caller closes it.

    Args:
        address: empty: all addresses.
        where: names of the settings, for an error.
    Raises: Unavailable: another process has the port, or the address is not of this machine.
    """
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise Unavailable(f"cannot listen at '{address or '*'}' port {port}: {reason}; see {where}") from error
    listener.setblocking(False)
    return listener


@attrs.define(eq=False)
class _Held:
    """The connections there are, and what ends them."""

    nursery: trio.Nursery
    scope: trio.CancelScope


class Connections:
    """The connections of one listener.

    Args:
        app: an ASGI application.
        identity: None: the connections are not encrypted.
        describe: is called for each new connection.
        draw_failure: makes the replies to what is no request.
        server: name of the program, for a header of each reply; empty: there is none.
        spare: see `ConnectionSlots`; the state of requests on such a connection says `CROWDED`.
    """

    def __init__(
        self,
        app: Application,
        identity: ServerIdentity | None,
        rules: ConnectionRules,
        describe: Describe = _nothing,
        *,
        draw_failure: DrawFailure = plain_failure,
        spare: int = 0,
        server: str = "",
    ) -> None:
        self._identity = identity
        self._rules = rules
        self._describe = describe
        self._serving = Serving(app, rules.idle_timeout_s, draw_failure, server.encode("ascii", "replace"))
        # connections after their handshake
        self._served: set[HttpConnection] = set()
        self._is_stopping = False
        self._places = ConnectionSlots(rules.max_clients, spare)

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self._places.taken

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until cancelled.

        Cancellation: accepts no more, closes idle connections, gives calls under way `stop_timeout_s`.
        """
        async with trio.open_nursery() as nursery:
            is_over = trio.Event()
            held: _Held = await nursery.start(_hold, is_over)
            try:
                await self._accept_all(listener, held.nursery)
            finally:
                self._is_stopping = True
                for connection in list(self._served):
                    connection.stop()
                held.scope.deadline = trio.current_time() + self._rules.stop_timeout_s
                is_over.set()

    async def _accept_all(self, listener: socket.socket, nursery: trio.Nursery) -> None:
        while True:
            await self._places.wait()
            sock = await _accept(listener)
            if sock is None:
                self._places.give_back()
                continue
            nursery.start_soon(self._serve_one, sock)

    async def _serve_one(self, sock: socket.socket) -> None:
        peer = _peer(sock)
        try:
            with sock, self._places.hold() as place:
                wire = self._wire(sock, peer)
                if wire is None:
                    return
                with closing(wire):
                    if self._identity is None or await self._has_shaken_hands(wire, peer):
                        await self._serve_requests(wire, place)
        except Exception:
            _log.exception("connection.crashed", peer=peer)

    async def _serve_requests(self, wire: StreamSocket, place: ConnectionSlot) -> None:
        state = {**self._describe(wire.sock), **({CROWDED: True} if place.is_spare else {})}
        connection = HttpConnection(self._serving, wire, state, partial(self._places.set_idle, place))
        self._served.add(connection)
        try:
            if self._is_stopping:
                connection.stop()
            await connection.run()
        finally:
            self._served.discard(connection)

    def _wire(self, sock: socket.socket, peer: str) -> StreamSocket | None:
        """Take over the socket, for TLS if there is an identity; None: the peer has gone."""
        if self._identity is None:
            return StreamSocket(sock)
        try:
            context = self._identity.context()
            return StreamSocket(context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))
        except OSError as error:
            _log.info("handshake.failed", peer=peer, reason=error)
            return None

    async def _has_shaken_hands(self, wire: StreamSocket, peer: str) -> bool:
        """Begin TLS; return False if the peer is not trusted, or too slow."""
        try:
            with trio.fail_after(self._rules.handshake_timeout_s):
                await wire.shake_hands()
        except trio.TooSlowError:
            _log.info("handshake.failed", peer=peer, reason=f"not over after {self._rules.handshake_timeout_s:g} s")
            return False
        except OSError as error:
            _log.info("handshake.failed", peer=peer, reason=getattr(error, "reason", None) or error or "hung up")
            return False
        return True


async def _hold(is_over: trio.Event, *, task_status: trio.TaskStatus[_Held]) -> None:
    """Hold the connections; they are not cancelled with the server, but by their own scope."""
    with trio.CancelScope(shield=True) as scope:
        async with trio.open_nursery() as nursery:
            task_status.started(_Held(nursery, scope))
            await is_over.wait()


async def _accept(listener: socket.socket) -> socket.socket | None:
    """Return the next connection; None: the client gave up, or there is no descriptor for it now."""
    await trio.lowlevel.wait_readable(listener)
    try:
        sock, _ = listener.accept()
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in SHORTAGES:
            _log.warning("accept.failed", error=os.strerror(error.errno or 0), retry_s=_ACCEPT_PAUSE_S)
            await trio.sleep(_ACCEPT_PAUSE_S)
        return None
    sock.setblocking(False)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_MS)
    return sock


def _peer(sock: socket.socket) -> str:
    try:
        address = sock.getpeername()
    except OSError:
        return "gone"
    if sock.family == socket.AF_UNIX:
        return str(peer_of(sock))
    return f"{address[0]}:{address[1]}"


# Small pages over plain HTTP, made from the path and the method alone: for those who watch this node.
#
# Source: mond.md 2; lease.md 2.


JSON: Final = "application/json"
# bytes of a body, which no request needs, and seconds for it
_BODY_BYTES: Final = 2**16
_BODY_S: Final = 10.0


@attrs.frozen
class PlainReply:
    status: int
    content_type: str
    body: bytes

    @classmethod
    def of(cls, status: int, value: object) -> "PlainReply":
        """The value as JSON."""
        return cls(status, JSON, ascii_json(value))


@attrs.frozen
class _Rules:
    """Bounds of the connections: a few watchers, one request at a time each."""

    max_clients: int = 100
    handshake_timeout_s: float = 5.0
    idle_timeout_s: float = 10.0
    stop_timeout_s: float = 1.0


class PlainPages:
    """An ASGI application.

    Args:
        page: path and method -> what is there.
        headers: of each reply, besides those of the body.
    """

    def __init__(self, page: Callable[[str, str], PlainReply], headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self._page = page
        self._headers = headers
        self._bodies = Bodies(_BODY_BYTES, _BODY_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._bodies.skip(scope, receive)
        except HungUp:
            return
        method = str(scope["method"])
        page = self._page(str(scope["path"]), method)
        about = [(b"content-type", page.content_type.encode()), (b"content-length", b"%d" % len(page.body))]
        body = b"" if method == "HEAD" else page.body
        await send({"type": "http.response.start", "status": page.status, "headers": [*about, *self._headers]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def connections(self) -> Connections:
        """The connections of a listener that serves these pages; idle ones make room for new ones."""
        return Connections(self, None, _Rules(), spare=8)
