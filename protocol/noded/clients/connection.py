"""One connection to a node daemon: a socket that never blocks, and its channel.

The clients wait until the socket is ready, each in its way, and then call `advance`.

Source: noded.md section 2.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import attrs
import h11

from common.errors import explain_os_error
from protocol.noded.call import EPOCH_HEADER, Breakdown, FailureKind, NodeAddress
from protocol.unixsocket import is_usable

# TLS and HTTP of one connection to a node daemon, without I/O: bytes of the network in, bytes for it out.
#
# The connection is kept if the node daemon keeps it: Ganeti's closes it after each reply, ours does not.
#
# Source: noded.md section 2.


# largest reply that is taken, bytes
MAX_REPLY: Final = 16 * 2**20
# plain bytes that are encrypted at a time
PIECE: Final = 64 * 2**10
_EPOCH_NAME: Final = EPOCH_HEADER.lower().encode()
_EPOCH_DIGITS: Final = 20
# parts of OpenSSL's names for what a peer says that does not take our certificate
_CERTIFICATE_ALERTS: Final = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


@attrs.frozen
class HttpRequest:
    """A POST of a procedure's arguments."""

    procedure: str
    body: bytes
    # epoch of the master that calls; None: it has none
    epoch: int | None = None
    # whether the connection is kept after the reply
    keep: bool = True


@attrs.frozen
class NodedHttpReply:
    status: int
    reason: str
    body: bytes
    # highest epoch that the node has seen; None: it knows none, as Ganeti's
    epoch: int | None = None


class Channel:
    """One connection, from its handshake to its end."""

    def __init__(self, context: ssl.SSLContext, node: NodeAddress) -> None:
        self._node = node
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._http = h11.Connection(h11.CLIENT)
        # whether the handshake is done
        self.is_up = False
        # whether anything came after the handshake; a node daemon that refuses our certificate is silent there
        self._has_heard = False
        # parts of the request that are not encrypted yet
        self._unsent: list[memoryview] = []
        self._head: h11.Response | None = None
        self._body = bytearray()
        self._shake_hands()

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow the reply that was received."""
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return is_done and not self._http.trailing_data[0]

    @property
    def has_reply_begun(self) -> bool:
        return self._head is not None

    def ask(self, request: HttpRequest) -> None:
        """Take a request; there is none under way."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
            self._head = None
            self._body.clear()
        parts = (
            h11.Request(method="POST", target=f"/{request.procedure}", headers=_headers(self._node, request)),
            h11.Data(data=request.body),
            h11.EndOfMessage(),
        )
        # with passing through, a large body is not copied for each node
        pieces = [piece for part in parts for piece in self._http.send_with_data_passthrough(part) or ()]
        if sum(map(len, pieces)) <= PIECE:
            # h11 gives each header as a piece, and each piece would be a TLS record, which wakes the node's daemon
            pieces = [b"".join(pieces)]
        self._unsent = [memoryview(piece) for piece in pieces if piece]

    def to_send(self) -> bytes:
        """Bytes for the network; empty: none for now. A large request comes in pieces."""
        if self.is_up and not self._outgoing.pending and self._unsent:
            first = self._unsent[0]
            rest = first[self._tls.write(first[:PIECE]) :]
            self._unsent[:1] = [rest] if rest else []
        return self._outgoing.read()

    def receive(self, data: bytes) -> NodedHttpReply | None:
        """Take bytes of the network, `b""` at its end; return the reply when it is whole.

        Raises: Breakdown: there will be no reply on this connection.
        """
        if data:
            self._incoming.write(data)
            self._has_heard = self.is_up
        else:
            self._incoming.write_eof()
        if not self.is_up:
            self._shake_hands()
        return self._read() if self.is_up else None

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._tls_failure(error) from error
        self.is_up = True

    def _read(self) -> NodedHttpReply | None:
        while True:
            try:
                # empty after the peer's farewell
                plain = self._tls.read(PIECE)
            except ssl.SSLWantReadError:
                return None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                plain = b""
            except ssl.SSLError as error:
                raise self._tls_failure(error) from error
            reply = self._parse(plain)
            if reply is not None:
                return reply
            if not plain:
                raise self.lost()

    def _parse(self, plain: bytes) -> NodedHttpReply | None:
        try:
            self._http.receive_data(plain)
            while True:
                event = self._http.next_event()
                match event:
                    case h11.Response():
                        self._head = event
                    case h11.Data():
                        self._add(event.data)
                    case h11.EndOfMessage() if self._head is not None:
                        head = self._head
                        reason = head.reason.decode("latin-1")
                        return NodedHttpReply(head.status_code, reason, bytes(self._body), _epoch(head))
                    case h11.ConnectionClosed():
                        raise self.lost()
                    case h11.InformationalResponse():
                        pass
                    case _:
                        return None
        except h11.RemoteProtocolError as error:
            if not plain:
                raise self.lost() from error
            raise Breakdown(FailureKind.GARBLED, f"{self._node} does not speak HTTP: {error}") from error

    def _add(self, data: bytes | bytearray) -> None:
        self._body += data
        if len(self._body) > MAX_REPLY:
            raise Breakdown(
                FailureKind.GARBLED, f"{self._node} sends a reply of more than {MAX_REPLY} bytes, the limit"
            )

    def lost(self, reason: str = "") -> Breakdown:
        """The breakdown that the end of the connection means after the handshake. Args: reason: the system's words."""
        text = f"{self._node} closed the connection before its reply was whole{reason and f': {reason}'}"
        if not self._has_heard:
            text += "; perhaps it does not accept the certificate of this node"
        return Breakdown(FailureKind.LOST, text)

    def _tls_failure(self, error: ssl.SSLError) -> Breakdown:
        reason = error.reason or str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{self._node} has a certificate that is not this cluster's: {error.verify_message}"
            return Breakdown(FailureKind.UNTRUSTED, text)
        if "ALERT" in reason and any(part in reason for part in _CERTIFICATE_ALERTS):
            text = f"{self._node} does not accept the certificate of this node: {_words(reason)}"
            return Breakdown(FailureKind.UNTRUSTED, text)
        if self.is_up:
            return Breakdown(FailureKind.LOST, f"{self._node} broke off the connection: {_words(reason)}")
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            reason = "it closed the connection"
        return Breakdown(FailureKind.UNREACHABLE, f"no TLS with {self._node}: {_words(reason)}")


def _headers(node: NodeAddress, request: HttpRequest) -> list[tuple[str, str]]:
    headers = [
        ("Host", node.place),
        ("Accept", "*/*"),
        ("Content-type", "application/json"),
        ("Content-Length", str(len(request.body))),
    ]
    if request.epoch is not None:
        headers.append((EPOCH_HEADER, str(request.epoch)))
    if not request.keep:
        headers.append(("Connection", "close"))
    return headers


def _epoch(head: h11.Response) -> int | None:
    for name, value in head.headers:
        if name == _EPOCH_NAME and value.isdigit() and len(value) < _EPOCH_DIGITS:
            return int(value)
    return None


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


CHUNK: Final = 64 * 2**10
# limit for connection and handshake together, seconds
CONNECT_S: Final = 5.0
# connections of a client at a time, kept ones included
MAX_CONNECTIONS: Final = 30


class NodeConnection:
    """A connection that is being made, or is there.

    Raises: Breakdown: it cannot even be begun.
    """

    def __init__(self, node: NodeAddress, context: ssl.SSLContext) -> None:
        self.node = node
        # connections of an older context are not used for new calls
        self.context = context
        # the reply to the last request, once it is whole
        self.reply: NodedHttpReply | None = None
        self._channel = Channel(context, node)
        # encrypted bytes that the network has not taken yet
        self._rest = memoryview(b"")
        self._is_connected = False
        # the peer takes no more bytes; what it has sent before is still read
        self._is_deaf = False
        self.sock = self._begin()

    def _begin(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.node.ip else socket.AF_INET
        try:
            # a name would be looked up, which blocks
            socket.inet_pton(family, self.node.ip)
        except OSError as error:
            raise self._unsent("its address is not an IP address") from error
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError as error:
            # this says nothing about the node
            raise self._unsent(explain_os_error(error)) from error
        code = sock.connect_ex((self.node.ip, self.node.port))
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            raise self._unreachable(OSError(code, os.strerror(code)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    @property
    def is_up(self) -> bool:
        """Whether connection and handshake are done."""
        return self._channel.is_up

    @property
    def has_reply_begun(self) -> bool:
        return self._channel.has_reply_begun

    @property
    def wants_read(self) -> bool:
        return self._is_connected

    @property
    def wants_write(self) -> bool:
        return not self._is_connected or bool(self._rest)

    @property
    def may_be_kept(self) -> bool:
        """Whether another request may be sent, as far as is known here."""
        return self._channel.is_reusable and not self._is_deaf and is_usable(self.sock)

    def ask(self, request: HttpRequest) -> None:
        """Take a request; `advance` sends it."""
        self.reply = None
        self._channel.ask(request)

    def advance(self) -> None:
        """Go as far as possible without waiting: connect, shake hands, send, receive one chunk.

        Raises: Breakdown: there will be no reply; the caller closes the connection.
        """
        if not self._is_connected and not self._has_connected():
            return
        self._send()
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken(error) from error
        self.reply = self._channel.receive(data)
        self._send()

    def close(self) -> None:
        self.sock.close()

    def _has_connected(self) -> bool:
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            raise self._unreachable(OSError(code, os.strerror(code)))
        try:
            self.sock.getpeername()
        except OSError:
            return False
        self._is_connected = True
        return True

    def _send(self) -> None:
        while not self._is_deaf:
            if not self._rest:
                self._rest = memoryview(self._channel.to_send())
                if not self._rest:
                    return
            try:
                self._rest = self._rest[self.sock.send(self._rest) :]
            except BlockingIOError:
                return
            except OSError:
                # perhaps it has replied before it had the whole request, or has said why it ends
                self._is_deaf = True
                self._rest = memoryview(b"")

    def _unsent(self, reason: str) -> Breakdown:
        return Breakdown(FailureKind.UNSENT, f"{self.node} was not asked: {reason}")

    def _unreachable(self, error: OSError) -> Breakdown:
        reason = (error.strerror or str(error)).lower()
        return Breakdown(FailureKind.UNREACHABLE, f"{self.node} is not reached: {reason}")

    def _broken(self, error: OSError) -> Breakdown:
        if not self.is_up:
            return self._unreachable(error)
        return self._channel.lost((error.strerror or str(error)).lower())


# Connections that are kept for the next call to their node.
#
# Theory. A new connection costs a handshake, several times a small call. So the trio client keeps those that node
# daemons leave open, the last used first; beyond the limit the one that was not used for longest is closed. A
# connection of an old certificate is never used again: the node may have stopped to accept it.


class KeptConnections:
    """Idle connections, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # the one that was not used for longest comes first
        self._idle: list[NodeConnection] = []

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, node: NodeAddress, context: ssl.SSLContext) -> NodeConnection | None:
        """A usable connection to this node, which now belongs to the caller; None: there is none."""
        for connection in list(self._to(node)):
            self._idle.remove(connection)
            if connection.context is context and connection.may_be_kept:
                return connection
            connection.close()
        return None

    def put(self, connection: NodeConnection) -> None:
        """Keep a connection whose call has its reply, or close it if no other call can use it."""
        if connection.may_be_kept:
            self._idle.append(connection)
        else:
            connection.close()
        self.leave_room(self._limit)

    def leave_room(self, most: int) -> None:
        """Close connections until at most `most` are kept."""
        while len(self._idle) > max(most, 0):
            self._idle.pop(0).close()

    def close(self) -> None:
        self.leave_room(0)

    def _to(self, node: NodeAddress) -> Iterator[NodeConnection]:
        return (each for each in reversed(self._idle) if (each.node.ip, each.node.port) == (node.ip, node.port))
