"""The bytes of one connection to a member of etcd, plain or under TLS, for trio.

Theory. A request of luxid waits for these lines, so a send that the kernel takes at once costs no turn of the event
loop, and a reply costs one.

Source: lease.md 1.
"""

import errno
import os
import socket
import ssl
from typing import Final, Protocol

import trio

from common.errors import explain_os_error
from protocol.dial import is_usable
from protocol.etcd.address import Endpoint

CHUNK: Final = 64 * 2**10


class Broken(Exception):
    """A connection cannot be made, or is lost; in words for users."""


class TlsBroken(Broken):
    """TLS has failed; perhaps a certificate was renewed."""


class Wire(Protocol):
    """Raises, all methods: Broken."""

    @property
    def may_be_kept(self) -> bool:
        """Whether the peer has sent nothing since, and has not closed it, as far as is known here."""
        ...

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes:
        """Empty: the peer has closed."""
        ...

    def close(self) -> None: ...


class PlainWire:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @property
    def may_be_kept(self) -> bool:
        return is_usable(self._sock)

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
            except OSError as error:
                raise _lost(error) from error

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _lost(error) from error

    def close(self) -> None:
        self._sock.close()


class TlsWire:
    """TLS over a plain wire; `shake_hands` comes first."""

    def __init__(self, below: PlainWire, context: ssl.SSLContext, host: str) -> None:
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    @property
    def may_be_kept(self) -> bool:
        # tickets of TLS 1.3 come with the first reply, not later
        return self._below.may_be_kept

    async def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except ssl.SSLError as error:
                raise TlsBroken(_tls_words(error)) from error
            else:
                await self._flush()
                return

    async def send(self, data: bytes) -> None:
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise TlsBroken(_tls_words(error)) from error
        await self._flush()

    async def receive(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise TlsBroken(_tls_words(error)) from error

    def close(self) -> None:
        self._below.close()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._below.send(self._outgoing.read())

    async def _fill(self) -> None:
        data = await self._below.receive()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


async def connect(endpoint: Endpoint, context: ssl.SSLContext | None) -> Wire:
    """Connect to a member. Args: context: for TLS; None: plain.

    Raises: Broken: certainly nothing was sent.
    Cancellation: nothing is left open.
    """
    plain = PlainWire(await _socket(endpoint))
    if context is None:
        return plain
    wire = TlsWire(plain, context, endpoint.host)
    try:
        await wire.shake_hands()
    except BaseException:
        wire.close()
        raise
    return wire


async def _socket(endpoint: Endpoint) -> socket.socket:
    try:
        # an address is not looked up; a name is, in a thread
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Broken(f"its name is not known: {error.strerror or error}") from error
    refused = Broken("its name has no address")
    # a name such as localhost has one address of each kind, and the member may listen at either
    for family, _, _, _, place in found:
        try:
            return await _socket_to(family, place)
        except Broken as broken:
            refused = broken
    raise refused


async def _socket_to(family: int, place: tuple[object, ...]) -> socket.socket:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    except OSError as error:
        raise Broken(explain_os_error(error)) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(place)
        if code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise Broken(os.strerror(code).lower())
    except BaseException:
        sock.close()
        raise
    return sock


def _lost(error: OSError) -> Broken:
    return Broken((error.strerror or str(error)).lower())


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (setting 'ca_file' of '[etcd]')"
    return f"no TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
