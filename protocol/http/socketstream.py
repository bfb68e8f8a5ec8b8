"""A connected socket as anyio's streams are, without what anyio and trio do around each call.

Theory. The kernel nearly always takes a reply at once. So it is sent right away, and only a socket whose buffer is full
is waited for; reading waits first, as the next request is not there yet. Over the streams of anyio on trio both cost
several more turns of the event loop and a failed system call.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.abc
import trio

_CHUNK = 64 * 1024


class DirectStream(anyio.abc.SocketStream):
    """Args: sock: connected and non-blocking; the stream owns it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._is_closed = self._is_reading = self._is_writing = False

    @property
    def _raw_socket(self) -> socket.socket:
        return self._sock

    async def receive(self, max_bytes: int = _CHUNK) -> bytes:
        self._check_open()
        if self._is_reading:
            raise anyio.BusyResourceError("reading from")
        self._is_reading = True
        try:
            with self._errors():
                data = await self._receive(max_bytes)
        finally:
            self._is_reading = False
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """As of anyio's; it is no checkpoint where the kernel takes all of it at once."""
        self._check_open()
        if self._is_writing:
            raise anyio.BusyResourceError("writing to")
        self._is_writing = True
        try:
            with self._errors():
                await self._send(memoryview(item))
        finally:
            self._is_writing = False

    async def send_eof(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        await trio.lowlevel.checkpoint()

    def _check_open(self) -> None:
        """Raises: ClosedResourceError. The event loop must not be asked about a descriptor that is closed."""
        if self._is_closed:
            raise anyio.ClosedResourceError

    async def _receive(self, max_bytes: int) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(max_bytes)
            except BlockingIOError:
                continue

    async def _send(self, left: memoryview) -> None:
        while left:
            try:
                left = left[self._sock.send(left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise anyio's errors."""
        try:
            yield
        except trio.ClosedResourceError:
            raise anyio.ClosedResourceError from None
        except (OSError, ValueError) as error:
            # a closed socket has no descriptor any more
            raise (anyio.ClosedResourceError if self._is_closed else anyio.BrokenResourceError) from error
