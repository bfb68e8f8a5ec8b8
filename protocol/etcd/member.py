"""One member of etcd: its connections, its release, and the token that it has given.

Theory. Each request that is under way has a connection to itself; connections are kept for the next. The gateway keeps
them open. A connection whose request was given up is closed, since its reply may still come.

Source: lease.md 1.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs
import h11
import orjson
import trio

from common.errors import explain_os_error
from protocol.etcd.address import Endpoint
from protocol.etcd.credentials import TlsContexts
from protocol.etcd.kv import UnsafeRelease
from protocol.streamsocket import StreamSocket, closing_unless_done


class ConnectionBroken(Exception):
    """A connection cannot be made, or is lost; in words for users."""


class TlsBroken(ConnectionBroken):
    """TLS has failed; perhaps a certificate was renewed."""


async def connect(endpoint: Endpoint, context: ssl.SSLContext | None) -> StreamSocket:
    """Connect to a member. Args: context: for TLS; None: plain.

    Raises: ConnectionBroken: certainly nothing was sent.
    Cancellation: nothing is left open.
    """
    sock = await _socket(endpoint)
    if context is None:
        return StreamSocket(sock)
    try:
        with closing_unless_done(sock):
            wire = StreamSocket(context.wrap_socket(sock, server_hostname=endpoint.host, do_handshake_on_connect=False))
        with closing_unless_done(wire):
            await wire.shake_hands()
    except OSError as error:
        raise _broken(error) from error
    return wire


async def _socket(endpoint: Endpoint) -> socket.socket:
    try:
        # an address is not looked up; a name is, in a thread
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionBroken(f"its name is not known: {error.strerror or error}") from error
    refused = ConnectionBroken("its name has no address")
    # a name such as localhost has one address of each kind, and the member may listen at either
    for family, _, _, _, place in found:
        try:
            return await _socket_to(family, place)
        except ConnectionBroken as broken:
            refused = broken
    raise refused


async def _socket_to(family: int, place: tuple[object, ...]) -> socket.socket:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise ConnectionBroken(explain_os_error(error)) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(place)
        if code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise ConnectionBroken(os.strerror(code).lower())
    except BaseException:
        sock.close()
        raise
    return sock


def _broken(error: OSError) -> ConnectionBroken:
    if isinstance(error, ssl.SSLError):
        return TlsBroken(_tls_words(error))
    return ConnectionBroken((error.strerror or str(error)).lower())


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (setting 'ca_file' of '[etcd]')"
    return f"no TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"


# HTTP over one connection to a member of etcd, one request at a time.
#
# Source: lease.md 1.


OK: Final = 200
# a reply of more bytes is taken for a fault
MAX_REPLY: Final = 256 * 2**20


@attrs.frozen
class EtcdHttpReply:
    status: int
    body: bytes


class EtcdConnection:
    """HTTP over one connection, one request at a time. Raises, all methods: ConnectionBroken."""

    def __init__(self, wire: StreamSocket, host: str) -> None:
        self._wire = wire
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        # what has come of a reply in lines
        self._lines = bytearray()

    @property
    def is_done(self) -> bool:
        """Whether another request may follow."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    @property
    def may_be_kept(self) -> bool:
        return self._wire.may_be_kept

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        lines = [("Host", self._host), ("Content-Length", str(len(body))), *headers.items()]
        head = self._http.send(h11.Request(method=method, target=path, headers=lines)) or b""
        try:
            # one packet for most requests
            await self._wire.send(head + (self._http.send(h11.Data(data=body)) or b""))
        except OSError as error:
            raise _broken(error) from error
        self._http.send(h11.EndOfMessage())

    async def reply(self) -> EtcdHttpReply:
        return EtcdHttpReply(await self.head(), await self.body())

    async def body(self) -> bytes:
        """Return all of the reply that follows its head."""
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > MAX_REPLY:
                raise ConnectionBroken(f"its reply has more than {MAX_REPLY} bytes")
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionBroken("it closed the connection before its reply was whole")
        return bytes(body)

    async def head(self) -> int:
        """Return the status of the reply."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectionBroken("it closed the connection before it replied")

    async def line(self) -> bytes:
        """Return the next line of a reply that comes in lines."""
        while (end := self._lines.find(b"\n")) < 0:
            event = await self._event()
            if not isinstance(event, h11.Data):
                raise ConnectionBroken(
                    "it ended its reply" if isinstance(event, h11.EndOfMessage) else "it closed the connection"
                )
            self._lines += event.data
            if len(self._lines) > MAX_REPLY:
                raise ConnectionBroken(f"a line of its reply has more than {MAX_REPLY} bytes")
        line = bytes(self._lines[:end])
        del self._lines[: end + 1]
        return line

    async def _event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._wire.receive())
        except h11.RemoteProtocolError as error:
            raise ConnectionBroken(f"its reply is cut, or not HTTP: {error}") from error
        except OSError as error:
            raise _broken(error) from error
        if isinstance(event, h11.Event):
            return event
        raise ConnectionBroken("it sent more than its reply")

    def close(self) -> None:
        self._wire.close()


# a crash under load makes them lose entries that others have
BROKEN_RELEASES: Final = frozenset({"3.5.0", "3.5.1", "3.5.2"})
_NO_HEADERS: Final[Mapping[str, str]] = {}
_MAX_KEPT: Final = 16


class Member:
    """A member; any number of tasks may ask it at a time.

    Args:
        tls: None: plain.
        takes_all_releases: whether a release is used that may lose data when it crashes.
    """

    def __init__(self, endpoint: Endpoint, tls: TlsContexts | None, *, takes_all_releases: bool = False) -> None:
        self.endpoint = endpoint
        # as it said when it was connected to last; empty: never yet
        self.release = ""
        # proves the user to this member; empty: there is none yet, or it asks for none
        self.token = ""
        # held while a token is fetched, which costs the member much
        self.login_lock = trio.Lock()
        self._tls = tls
        self._takes_all_releases = takes_all_releases
        # the one that was used last comes last
        self._idle: list[EtcdConnection] = []

    async def ask(self, path: str, body: bytes, *, with_token: bool = True) -> EtcdHttpReply:
        """POST a request.

        Args: with_token: not for fetching a token: a token that does not count any more is refused there, too.
        Raises:
            ConnectionBroken: there is no whole reply; the member may have carried the request out.
            UnsafeRelease: nothing was sent.
        Cancellation: it may have been carried out.
        """
        return await self._exchange("POST", path, body, self._headers() if with_token else _NO_HEADERS)

    async def fetch(self, path: str) -> EtcdHttpReply:
        """GET a page. Raises: as `ask`."""
        return await self._exchange("GET", path, b"", _NO_HEADERS)

    async def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> EtcdHttpReply:
        with self._noticing_certificates():
            connection = await self._connection()
            with closing_unless_done(connection):
                await connection.send(method, path, body, headers)
                reply = await connection.reply()
        self._keep(connection)
        return reply

    async def open_stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> EtcdConnection | EtcdHttpReply:
        """POST a request whose reply never ends.

        Returns: the connection, on which the reply's lines come, and which the caller closes; or why there is none.

        Raises: as `ask`.
        """
        with self._noticing_certificates():
            connection = await self._connect()
            with closing_unless_done(connection):
                await connection.send("POST", path, body, {**self._headers(), **headers})
                status = await connection.head()
                if status == OK:
                    return connection
                reply = EtcdHttpReply(status, await connection.body())
        connection.close()
        return reply

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": self.token} if self.token else _NO_HEADERS

    async def _connection(self) -> EtcdConnection:
        while self._idle:
            kept = self._idle.pop()
            if kept.may_be_kept:
                return kept
            kept.close()
        return await self._connect()

    async def _connect(self) -> EtcdConnection:
        context = self._tls.current if self._tls else None
        connection = EtcdConnection(await connect(self.endpoint, context), self.endpoint.place)
        with closing_unless_done(connection):
            # a member is upgraded by a restart, so each connection may lead to another release
            await connection.send("GET", "/version", b"", _NO_HEADERS)
            self.release = release_of((await connection.reply()).body)
            if self.release in BROKEN_RELEASES and not self._takes_all_releases:
                raise UnsafeRelease(
                    f"the member of etcd at {self.endpoint} runs the release {self.release}, which may lose data when "
                    "it crashes; upgrade it (3.4.23 and all from 3.5.3 on are good), or set 'allow_broken_releases' of "
                    "'[etcd]'"
                )
        return connection

    def _keep(self, connection: EtcdConnection) -> None:
        if connection.is_done and len(self._idle) < _MAX_KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def _noticing_certificates(self) -> Iterator[None]:
        try:
            yield
        except TlsBroken:
            if self._tls:
                self._tls.refused()
            raise

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        while self._idle:
            self._idle.pop().close()


def release_of(body: bytes) -> str:
    """Raises: ConnectionBroken: it is no reply of etcd's."""
    try:
        release = orjson.loads(body)["etcdserver"]
    except (ValueError, TypeError, KeyError):
        release = None
    if not isinstance(release, str):
        raise ConnectionBroken(f"it is no member of etcd: it replied {body[:100]!r}")
    return release
