"""Call a daemon from a program without an event loop: job processes and the command line.

Source: DESIGN section 4; luxid.md 1.5.
"""

import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from common.errors import ConnectionLost, Unavailable
from protocol.envelope import read_event, read_reply, request_bytes
from protocol.framing import MAX_REPLY, Framer, pack
from protocol.messages import AnyRequest, Request, positional, structure_reply
from protocol.peer import Speaker
from protocol.unixsocket import dial, is_usable, pauses

CHUNK: Final = 64 * 2**10

R = TypeVar("R")


def _always() -> bool:
    return True


class BlockingClient:
    """One connection to a daemon; opened by the first call, and again after it was lost.

    Args:
        connect_timeout_s: seconds to wait for a daemon that is not there (yet, or again).
        is_coming: called after each attempt that found nobody there, whether it is worth waiting for the next one.
        reply_timeout_s: seconds to wait for a reply, unless a call says otherwise.
        daemon: name of the daemon in error texts.
        noted: called with each note for people in a reply.
    """

    def __init__(
        self,
        path: Path,
        *,
        connect_timeout_s: float = 30.0,
        is_coming: Callable[[], bool] = _always,
        reply_timeout_s: float = 180.0,
        daemon: str = "the daemon",
        noted: Callable[[str], None] | None = None,
    ) -> None:
        self._noted = noted
        self._path = path
        self._connect_timeout_s = connect_timeout_s
        self._is_coming = is_coming
        self._reply_timeout_s = reply_timeout_s
        self._daemon = daemon
        self._sock: socket.socket | None = None
        self._framer = Framer(MAX_REPLY)
        # messages that arrived together with an awaited one
        self._received: deque[bytes] = deque()
        # request whose reply has not arrived; holds here: at most one
        self._started: AnyRequest | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        self._started = None
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def fileno(self) -> int:
        """The descriptor of the connection: readable when the reply to a started request arrives; -1 without one."""
        return -1 if self._sock is None else self._sock.fileno()

    def call(self, request: Request[R], *, timeout_s: float | None = None, speaker: Speaker | None = None) -> R:
        """Send one request and wait for its reply, at most `timeout_s` seconds.

        Args:
            speaker: user in whose name to call; None: in that of this process.
        Raises:
            RemoteError: the daemon replied with an error.
            ConnectionLost: it closed the connection before it replied; whether it acted is unknown.
            Unavailable: it cannot be reached, or did not reply in time.
            Denied: this user may not connect.
            InvalidRequest, ProtocolError: the reply does not fit this method.
        """
        self.start(request, speaker=speaker)
        return self.finish(request, timeout_s=timeout_s)

    def start(self, request: AnyRequest, *, timeout_s: float | None = None, speaker: Speaker | None = None) -> None:
        """Send a request; `finish` takes its reply, and the caller is free until then.

        Args:
            timeout_s: limit for connecting, and for sending.
        Raises: ConnectionLost, Unavailable, Denied: as `call`.
        """
        if self._started is not None:
            raise RuntimeError(f"{self._started.METHOD} is not finished; one call at a time")
        limit_s = self._reply_timeout_s if timeout_s is None else timeout_s
        sock = self._opened(min(limit_s, self._connect_timeout_s))
        try:
            sock.settimeout(limit_s)
            sock.sendall(pack(request_bytes(request.METHOD, positional(request), speaker)))
        except OSError as error:
            raise self._lost(request, error) from error
        except BaseException:
            self.close()
            raise
        self._started = request

    def finish(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Wait for the reply to the started request.

        Raises: as `call`.
        """
        if self._started is not request:
            raise RuntimeError(f"{request.METHOD} was not started on this connection")
        try:
            payload = self._receive(self._reply_timeout_s if timeout_s is None else timeout_s)
        except OSError as error:
            raise self._lost(request, error) from error
        except BaseException:
            self.close()
            raise
        self._started = None
        return structure_reply(type(request), read_reply(payload, self._noted))

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Like `call`, but sends the same request again when the connection breaks.

        This is safe, because every call that changes state may be delivered twice (DESIGN section 4).

        Args:
            timeout_s: limit of all attempts together; `reply_timeout_s` if left out.
        Raises: as `call`; ConnectionLost and Unavailable only after `timeout_s`.
        """
        limit_s = self._reply_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        for pause in pauses():
            try:
                self.start(request, timeout_s=max(deadline - time.monotonic(), 0.001))
                return self.finish(request, timeout_s=max(deadline - time.monotonic(), 0.001))
            except Unavailable:
                if time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
        raise AssertionError("pauses() has no end")

    def subscribe(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Send a request whose reply begins a stream; `event` then returns its events.

        The connection now belongs to the stream: a client with a subscription makes no other calls.

        Raises: as `call`.
        """
        return self.call(request, timeout_s=timeout_s)

    def event(self, timeout_s: float | None = None) -> tuple[str, list[object]] | None:
        """Wait for the next event of the stream; None if none came within `timeout_s` seconds.

        Raises:
            RemoteError: the daemon has ended the stream, with this reason.
            ConnectionLost: the connection is gone; whether there were more events is unknown.
            ProtocolError: the message is not an event.
        """
        if self._sock is None:
            raise ConnectionLost(f"there is no connection to {self._daemon}; subscribe again")
        try:
            return read_event(self._receive(timeout_s))
        except TimeoutError:
            return None
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self._daemon} at {self._path} closed the connection") from error

    def _opened(self, timeout_s: float) -> socket.socket:
        if self._sock is not None:
            self._sock.setblocking(False)
            if not is_usable(self._sock):
                self.close()
        if self._sock is None:
            self._sock = self._dial_patiently(timeout_s)
            self._framer = Framer(MAX_REPLY)
            self._received.clear()
        return self._sock

    def _dial_patiently(self, timeout_s: float) -> socket.socket:
        deadline = time.monotonic() + timeout_s
        for pause in pauses():
            try:
                return dial(self._path, self._daemon)
            except Unavailable:
                if time.monotonic() + pause >= deadline or not self._is_coming():
                    raise
            time.sleep(pause)
        raise AssertionError("pauses() has no end")

    def _receive(self, timeout_s: float | None) -> bytes:
        assert self._sock is not None
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._received:
            self._sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 0.001))
            data = self._sock.recv(CHUNK)
            if not data:
                raise ConnectionResetError("end of stream")
            self._received += self._framer.feed(data)
        return self._received.popleft()

    def _lost(self, request: AnyRequest, error: OSError) -> Unavailable:
        self.close()
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self._daemon} at {self._path} gave no answer to {request.METHOD} in time")
        return ConnectionLost(f"{self._daemon} at {self._path} closed the connection before it answered")
