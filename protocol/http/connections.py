"""Accept connections, at most so many, and let anycorn speak HTTP on each.

Theory. anycorn's own accept loop ends the whole server when no descriptor is left, and accepts without a bound. So
the loop is ours, and anycorn gets each connection after its handshake. Beyond the bound callers wait in the kernel's
queue. A peer that is silent in its handshake is cut off soon. TLS is ended without waiting for the peer's farewell,
which may never come; the lengths in HTTP show a message that was cut. A host that vanished without a word is noticed by
the kernel.
"""

import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, cast

import anyio
import anyio.abc
import attrs
import trio
from anycorn import Config
from anycorn.app_wrappers import ASGIWrapper
from anycorn.typing import ASGIFramework, ConnectionState
from anycorn.worker_context import WorkerContext
from anyio.streams.tls import TLSStream

from common.errors import Unavailable
from common.system.log import get_log
from common.system.passing import SHORTAGES
from protocol.http.connection import Connection, DrawFailure, plain_failure
from protocol.http.places import Place, Places
from protocol.http.socketstream import DirectStream
from protocol.peer import peer_of

_BACKLOG: Final = 1024
_ACCEPT_PAUSE_S: Final = 0.1
# key in the state of requests on a connection for which there is no room
CROWDED: Final = "crowded"
# silence after which the kernel asks whether the peer's host is there, and time for its replies, in milliseconds
_KEEPALIVE_S: Final = 30
_GONE_MS: Final = 60_000
# requests on one connection, as good as unlimited
_REQUESTS: Final = 2**62
_log: Final = get_log(__name__)


class Identity(Protocol):
    """The certificate that a server shows."""

    def context(self) -> ssl.SSLContext:
        """The TLS context for a new connection."""
        ...


class Rules(Protocol):
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
        spare: see `Places`; the state of requests on such a connection says `CROWDED`.
    """

    def __init__(
        self,
        app: ASGIFramework,
        identity: Identity | None,
        rules: Rules,
        describe: Describe = _nothing,
        *,
        draw_failure: DrawFailure = plain_failure,
        spare: int = 0,
        server: str = "",
    ) -> None:
        self._identity = identity
        self._rules = rules
        self._describe = describe
        self._context = WorkerContext(None)
        self._app = ASGIWrapper(app)
        self._config = _config(rules, server)
        self._draw_failure = draw_failure
        self._places = Places(rules.max_clients, spare)

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
                await self._context.terminated.set()
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
            with self._places.hold() as place:
                stream = await self._stream(sock)
                if stream is not None:
                    await self._connection(sock, stream, place).run()
        except Exception:
            _log.exception("connection.crashed", peer=peer)
        finally:
            sock.close()

    def _connection(self, sock: socket.socket, stream: anyio.abc.ByteStream, place: Place) -> Connection:
        state = {**self._describe(sock), **({CROWDED: True} if place.is_spare else {})}
        return Connection(
            self._app,
            self._config,
            self._context,
            ConnectionState(state),
            # anycorn uses what the two kinds of streams have in common
            cast(anyio.abc.SocketStream, stream),
            draw_failure=self._draw_failure,
            is_idle=partial(self._places.set_idle, place),
        )

    async def _stream(self, sock: socket.socket) -> anyio.abc.ByteStream | None:
        """Return the stream, encrypted if it is to be; None: the peer is not trusted, or too slow."""
        peer = _peer(sock)
        try:
            raw = DirectStream(sock)
            if self._identity is None:
                return raw
            with anyio.fail_after(self._rules.handshake_timeout_s):
                context = self._identity.context()
                return await TLSStream.wrap(raw, server_side=True, ssl_context=context, standard_compatible=False)
        except TimeoutError:
            _log.info("handshake.failed", peer=peer, reason=f"not over after {self._rules.handshake_timeout_s:g} s")
        except (ssl.SSLError, OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            _log.info("handshake.failed", peer=peer, reason=getattr(error, "reason", None) or error or "hung up")
        return None


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


class _Config(Config):
    server_name = b""

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        headers = super().response_headers(protocol)
        return [*headers, (b"server", self.server_name)] if self.server_name else headers


def _config(rules: Rules, server: str) -> Config:
    config = _Config()
    config.server_name = server.encode("ascii", "replace")
    config.accesslog = None
    # to our log, as all libraries
    config.errorlog = logging.getLogger("anycorn.error")
    config.alpn_protocols = ["http/1.1"]
    config.include_server_header = False
    config.keep_alive_timeout = rules.idle_timeout_s
    config.keep_alive_max_requests = _REQUESTS
    return config
