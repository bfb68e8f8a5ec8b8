"""What a client and a daemon say to each other over one Unix connection, for programs with and without an event loop.

Theory. A connection carries one call at a time, or, after a subscription, one stream. It is opened by the first call,
and again after it was lost. A part of a call is a generator of steps: it sends and receives what it can at once, and
yields what it must wait for. Limits of time, texts of errors, and what makes a connection unusable are decided here;
`protocol.client` and `protocol.blocking` are the drivers, which wait.

Source: DESIGN section 4; luxid.md 1.5.
"""

import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from common.errors import ConnectionLost, SilentDaemon, Unavailable
from protocol.envelope import request_bytes
from protocol.framing import MAX_REPLY, Framer, pack
from protocol.messages import AnyRequest, positional
from protocol.peer import Speaker
from protocol.unixsocket import dial, is_usable, pauses

CHUNK: Final = 64 * 2**10

T = TypeVar("T")


class Wait:
    """What a step waits for: that a socket is ready, or only that time passes.

    The answer is whether the socket was ready in time. A plain class, as attrs would take long to make it, and the
    shortest command imports this.
    """

    __slots__ = ("deadline", "for_writing", "sock")

    def __init__(self, sock: socket.socket | None, deadline: float | None, *, for_writing: bool = False) -> None:
        # None: nothing but the deadline is waited for
        self.sock = sock
        # by the clock of the conversation; None: there is no limit
        self.deadline = deadline
        self.for_writing = for_writing


Steps = Generator[Wait, bool, T]


def always() -> bool:
    """Whatever it is, it is so."""
    return True


class DaemonConversation:
    """Calls, one after the other, or a stream.

    Args:
        daemon: its name in error texts.
        clock: returns the time, in seconds.
        connect_timeout_s: seconds to wait for a daemon that is not there (yet, or again).
        is_coming: called after each attempt that found nobody there, whether it is worth waiting for the next one.
    """

    def __init__(
        self,
        path: Path,
        daemon: str,
        clock: Callable[[], float],
        connect_timeout_s: float = 0.0,
        is_coming: Callable[[], bool] = always,
    ) -> None:
        self._path = path
        self._daemon = daemon
        self._clock = clock
        self._connect_timeout_s = connect_timeout_s
        self._is_coming = is_coming
        # of the connection; None: there is none
        self.sock: socket.socket | None = None
        self._framer = Framer(MAX_REPLY)
        # messages that arrived together with an awaited one
        self._received: deque[bytes] = deque()
        # request whose reply has not arrived; holds here: at most one
        self._started: AnyRequest | None = None

    def open(self, limit_s: float | None = None) -> Steps[socket.socket]:
        """Connect, unless there is a connection that can carry a call.

        Raises: Unavailable, Denied: as `dial`, after `connect_timeout_s` or `limit_s`, whichever is less.
        """
        if self.sock is not None and not is_usable(self.sock):
            self.close()
        if self.sock is None:
            self.sock = yield from self._dial(limit_s)
            self._framer = Framer(MAX_REPLY)
            self._received.clear()
        return self.sock

    def start(self, request: AnyRequest, speaker: Speaker | None = None, limit_s: float | None = None) -> Steps[None]:
        """Send a request.

        Args:
            speaker: user in whose name to call; None: in that of this process.
            limit_s: for connecting and sending.
        Raises: ConnectionLost, Unavailable, Denied: it was not sent, or not whole.
        """
        if self._started is not None:
            raise RuntimeError(f"{self._started.METHOD} is not finished; one call at a time")
        payload = pack(request_bytes(request.METHOD, positional(request), speaker))
        deadline = self._after(limit_s)
        sock = yield from self.open(limit_s)
        with self._closing_on_failure(" before it answered"):
            if not (yield from _send(sock, payload, deadline)):
                raise self._late(request)
        self._started = request

    def finish(self, request: AnyRequest, limit_s: float | None = None) -> Steps[bytes]:
        """Wait for the reply to the started request.

        Raises:
            ConnectionLost: the daemon closed the connection before it replied; whether it acted is unknown.
            SilentDaemon: it did not reply in time; the connection is closed, so that no later call gets this reply.
        """
        if self._started is not request:
            raise RuntimeError(f"{request.METHOD} was not started on this connection")
        with self._closing_on_failure(" before it answered"):
            payload = yield from self._receive(self._after(limit_s))
            if payload is None:
                raise self._late(request)
        self._started = None
        return payload

    def exchange(
        self, request: AnyRequest, speaker: Speaker | None = None, limit_s: float | None = None
    ) -> Steps[bytes]:
        """`start` and `finish`, each with this limit."""
        yield from self.start(request, speaker, limit_s)
        return (yield from self.finish(request, limit_s))

    def message(self, limit_s: float | None = None) -> Steps[bytes | None]:
        """Wait for the next message of a stream; None: none came in time.

        Raises: ConnectionLost: the connection is gone; whether there were more messages is unknown.
        """
        if self.sock is None:
            raise ConnectionLost(f"there is no connection to {self._daemon}; subscribe again")
        with self._closing_on_failure():
            return (yield from self._receive(self._after(limit_s)))

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        self._started = None
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def retries(self, request: AnyRequest, timeout_s: float) -> "Retries":
        """The attempts of a call that is sent again; the first begins now."""
        silence = Unavailable(f"{self._daemon} gave no answer to {request.METHOD} within {timeout_s:g} s")
        return Retries(timeout_s, self._clock, silence)

    def _dial(self, limit_s: float | None) -> Steps[socket.socket]:
        patience_s = self._connect_timeout_s if limit_s is None else min(limit_s, self._connect_timeout_s)
        deadline = self._clock() + patience_s
        for pause in pauses():
            try:
                return dial(self._path, self._daemon)
            except Unavailable:
                if self._clock() + pause >= deadline or not self._is_coming():
                    raise
            yield Wait(None, self._clock() + pause)
        raise AssertionError("pauses() has no end")

    def _receive(self, deadline: float | None) -> Steps[bytes | None]:
        """Raises: OSError."""
        sock = self.sock
        assert sock is not None
        while not self._received:
            try:
                data = sock.recv(CHUNK)
            except BlockingIOError:
                if not (yield Wait(sock, deadline)):
                    return None
                continue
            if not data:
                raise ConnectionResetError("end of stream")
            self._received += self._framer.feed(data)
        return self._received.popleft()

    def _after(self, limit_s: float | None) -> float | None:
        return None if limit_s is None else self._clock() + limit_s

    def _late(self, request: AnyRequest) -> SilentDaemon:
        return SilentDaemon(f"{self._daemon} at {self._path} gave no answer to {request.METHOD} in time")

    @contextmanager
    def _closing_on_failure(self, when: str = "") -> Iterator[None]:
        """Close the connection if a step fails half done, or is given up: it cannot be used for the next one."""
        try:
            yield
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self._daemon} at {self._path} closed the connection{when}") from error
        except BaseException:
            self.close()
            raise


def _send(sock: socket.socket, payload: bytes, deadline: float | None) -> Steps[bool]:
    """Return whether all was sent in time. Raises: OSError."""
    rest = memoryview(payload)
    while rest:
        try:
            rest = rest[sock.send(rest) :]
        except BlockingIOError:
            if not (yield Wait(sock, deadline, for_writing=True)):
                return False
    return True


class Retries:
    """When a call that may be delivered twice is sent again: with growing pauses, until its time is over.

    Every call that changes state may be delivered twice (DESIGN section 4).

    Args: silence: the error if no attempt has ended with one.
    """

    def __init__(self, timeout_s: float, clock: Callable[[], float], silence: Unavailable) -> None:
        self._deadline = clock() + timeout_s
        self._clock = clock
        self._pauses = pauses()
        self._last = silence

    @property
    def left_s(self) -> float:
        """Seconds for the next attempt."""
        return max(self._deadline - self._clock(), 0.001)

    def failed(self, error: Unavailable) -> None:
        """Note what the last attempt came to."""
        self._last = error

    def pause_s(self) -> float:
        """Seconds to wait before the next attempt. Raises: the last error: the time is over."""
        left_s = self._deadline - self._clock()
        if left_s <= 0:
            raise self._last
        return min(next(self._pauses), left_s)
