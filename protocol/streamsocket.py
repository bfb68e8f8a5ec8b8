"""A connected socket for trio, plain or under TLS: of HTTP's connections here, and of those to members of etcd.

Theory. A caller waits for these lines, so what the kernel does at once costs no turn of the event loop.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import trio

from protocol.unixsocket import is_usable

_CHUNK: Final = 64 * 2**10


class StreamSocket:
    """A connected socket, encrypted or not.

    Args: sock: non-blocking, and owned by this object from now on; under TLS, `shake_hands` comes first.
    Raises, all methods: OSError: the connection is broken; under TLS also `ssl.SSLError`.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @property
    def may_be_kept(self) -> bool:
        """Whether the peer has sent nothing since, and has not closed it, as far as is known here."""
        return is_usable(self.sock)

    async def shake_hands(self) -> None:
        """Begin TLS. Raises: OSError: the peer is not trusted, or has gone."""
        assert isinstance(self.sock, ssl.SSLSocket)
        while True:
            try:
                return self.sock.do_handshake()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self.sock)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self.sock)

    async def receive(self) -> bytes:
        """Wait for bytes; none: the peer has ended its side."""
        if not (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            await trio.lowlevel.wait_readable(self.sock)
        while True:
            try:
                return self.sock.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                await trio.lowlevel.wait_readable(self.sock)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self.sock)

    async def send(self, content: bytes) -> None:
        """Send all of it. Cancellation: a part may have been sent."""
        rest = memoryview(content)
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                await trio.lowlevel.wait_writable(self.sock)
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self.sock)

    def close(self) -> None:
        """Close the connection. TLS is ended without waiting for the peer's farewell, which may never come."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        self.sock.close()


class _Closable(Protocol):
    def close(self) -> None: ...


@contextmanager
def closing_unless_done(connection: _Closable) -> Iterator[None]:
    """Close a connection whose use fails, or is given up: its reply may still come."""
    try:
        yield
    except BaseException:
        connection.close()
        raise
