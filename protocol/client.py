"""Call a daemon from a trio program, over one Unix connection.

Source: DESIGN section 4; luxid.md 1.5.
"""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import trio

from common.errors import ConnectionLost, Unavailable
from protocol.envelope import read_event, read_reply, request_bytes
from protocol.framing import MAX_REPLY, Framer, pack
from protocol.messages import AnyRequest, Request, positional, structure_reply
from protocol.peer import Speaker
from protocol.unixsocket import dial, is_usable, pauses

CHUNK: Final = 64 * 2**10

R = TypeVar("R")


class Client:
    """One connection to a daemon; opened by the first call, and again after it was lost.

    Tasks may share a client: their calls run one after the other. A call that may wait for
    long (for a lock, for a job) needs a client of its own.

    Args:
        daemon: name of the daemon in error texts.
    """

    def __init__(self, path: Path, *, daemon: str = "the daemon") -> None:
        self._path = path
        self._daemon = daemon
        self._sock: socket.socket | None = None
        self._framer = Framer(MAX_REPLY)
        # messages that arrived together with an awaited one
        self._received: deque[bytes] = deque()
        # held while a call is in progress
        self._turn = trio.Lock()

    @classmethod
    async def connect(cls, path: Path, *, daemon: str = "the daemon") -> Self:
        """Make a client whose connection is open; one attempt.

        Raises: Unavailable, Denied: see `dial`.
        """
        client = cls(path, daemon=daemon)
        await trio.lowlevel.checkpoint()
        client._opened()
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def call(
        self, request: Request[R], speaker: Speaker | None = None, noted: Callable[[str], None] | None = None
    ) -> R:
        """Send one request and wait for its reply.

        Args:
            speaker: user in whose name to call; None: in that of this process.
            noted: called with each note for people in the reply.
        Raises:
            RemoteError: the daemon replied with an error.
            ConnectionLost: it closed the connection before it replied; whether it acted is unknown.
            Unavailable, Denied: it cannot be reached, and has not received the request.
            InvalidRequest, ProtocolError: the reply does not fit this method.
        Cancellation: the connection is closed; the daemon still carries out the call.
        """
        return structure_reply(type(request), read_reply(await self.exchange(request, speaker), noted))

    async def exchange(self, request: AnyRequest, speaker: Speaker | None = None) -> bytes:
        """As `call`, but return the reply as it came, whether it is a result or an error.

        Raises: ConnectionLost, Unavailable, Denied: as `call`.
        """
        payload = pack(request_bytes(request.METHOD, positional(request), speaker))
        await self._take_turn()
        try:
            sock = self._opened()
            with self._closing_on_failure():
                await _send(sock, payload)
                return await self._receive(sock)
        finally:
            self._turn.release()

    async def call_retrying(self, request: Request[R], timeout_s: float, speaker: Speaker | None = None) -> R:
        """Like `call`, but survives restarts of the daemon: sends the same request again.

        This is safe, because every call that changes state may be delivered twice (DESIGN section 4).

        Raises:
            RemoteError, Denied, InvalidRequest, ProtocolError: as `call`.
            Unavailable: there was no reply within `timeout_s` seconds.
        """
        last: Unavailable | None = None
        with trio.move_on_after(timeout_s):
            for pause in pauses():
                try:
                    return await self.call(request, speaker)
                except Unavailable as error:
                    last = error
                await trio.sleep(pause)
        raise last or Unavailable(f"{self._daemon} gave no answer to {request.METHOD} within {timeout_s} s")

    async def subscribe(self, request: Request[R], speaker: Speaker | None = None) -> R:
        """Send a request whose reply begins a stream; `event` then returns its events.

        The connection now belongs to the stream: a client with a subscription makes no other calls.

        Args, Raises, Cancellation: as `call`.
        """
        return await self.call(request, speaker)

    async def event(self) -> tuple[str, list[object]]:
        """Wait for the next event of the stream; return its name and parameters.

        Raises:
            RemoteError: the daemon has ended the stream, with this reason.
            ConnectionLost: the connection is gone; whether there were more events is unknown.
            ProtocolError: the message is not an event.
        Cancellation: the connection is closed.
        """
        async with self._turn:
            with self._closing_on_failure():
                return read_event(await self._next())

    async def message(self) -> bytes:
        """As `event`, but return the message as it came, also one that ends the stream.

        Raises: ConnectionLost: as `event`.
        """
        async with self._turn:
            with self._closing_on_failure():
                return await self._next()

    def close(self) -> None:
        """Close the connection, even during a call of another task, which then gets ConnectionLost."""
        self._drop()

    async def aclose(self) -> None:
        """`close` as an event of the loop."""
        self._drop()
        await trio.lowlevel.checkpoint()

    async def _take_turn(self) -> None:
        """Wait for calls under way; without a turn of the event loop if there is none."""
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()

    def _opened(self) -> socket.socket:
        if self._sock is not None and not is_usable(self._sock):
            self._drop()
        if self._sock is None:
            self._sock = dial(self._path, self._daemon)
            self._framer = Framer(MAX_REPLY)
            self._received.clear()
        return self._sock

    def _drop(self) -> None:
        if self._sock is not None:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
            self._sock = None

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        """Close the connection if the call fails half done: it cannot be used for the next one."""
        try:
            yield
        except (OSError, trio.ClosedResourceError) as error:
            self._drop()
            raise ConnectionLost(f"{self._daemon} at {self._path} closed the connection before it answered") from error
        except BaseException:
            self._drop()
            raise

    async def _next(self) -> bytes:
        """Raises: ConnectionLost: there is no connection."""
        if self._sock is None:
            raise ConnectionLost(f"there is no connection to {self._daemon}; subscribe again")
        return await self._receive(self._sock)

    async def _receive(self, sock: socket.socket) -> bytes:
        while not self._received:
            try:
                data = sock.recv(CHUNK)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(sock)
                continue
            if not data:
                raise ConnectionResetError("end of stream")
            self._received += self._framer.feed(data)
        return self._received.popleft()


async def _send(sock: socket.socket, payload: bytes) -> None:
    rest = memoryview(payload)
    while rest:
        try:
            rest = rest[sock.send(rest) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
