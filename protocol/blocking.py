"""Call a daemon from a program without an event loop: job processes and the command line.

Source: `protocol.conversation`.
"""

import select
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from common.errors import Unavailable
from protocol.conversation import DaemonConversation, Steps, Wait, always
from protocol.envelope import read_event, read_reply
from protocol.messages import AnyRequest, Request, structure_reply
from protocol.peer import Speaker

R = TypeVar("R")
T = TypeVar("T")


def _now() -> float:
    return time.monotonic()


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
        is_coming: Callable[[], bool] = always,
        reply_timeout_s: float = 180.0,
        daemon: str = "the daemon",
        noted: Callable[[str], None] | None = None,
    ) -> None:
        self._talk = DaemonConversation(path, daemon, _now, connect_timeout_s, is_coming)
        self._reply_timeout_s = reply_timeout_s
        self._noted = noted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        self._talk.close()

    def fileno(self) -> int:
        """The descriptor of the connection: readable when the reply to a started request arrives; -1 without one."""
        return -1 if self._talk.sock is None else self._talk.sock.fileno()

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
            timeout_s: limit for connecting and sending.
        Raises: ConnectionLost, Unavailable, Denied: as `call`.
        """
        self._carry_out(self._talk.start(request, speaker, self._limit_s(timeout_s)))

    def finish(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Wait for the reply to the started request.

        Raises: as `call`.
        """
        payload = self._carry_out(self._talk.finish(request, self._limit_s(timeout_s)))
        return structure_reply(type(request), read_reply(payload, self._noted))

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Like `call`, but sends the same request again when the connection breaks.

        Args:
            timeout_s: limit of all attempts together; `reply_timeout_s` if left out.
        Raises: as `call`; ConnectionLost and Unavailable only after `timeout_s`.
        """
        retries = self._talk.retries(request, self._limit_s(timeout_s))
        while True:
            try:
                self.start(request, timeout_s=retries.left_s)
                return self.finish(request, timeout_s=retries.left_s)
            except Unavailable as error:
                retries.failed(error)
            time.sleep(retries.pause_s())

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
        message = self._carry_out(self._talk.message(timeout_s))
        return None if message is None else read_event(message)

    def _limit_s(self, timeout_s: float | None) -> float:
        return self._reply_timeout_s if timeout_s is None else timeout_s

    def _carry_out(self, steps: Steps[T]) -> T:
        try:
            # given up, it closes the connection
            with closing(steps):
                wait = next(steps)
                while True:
                    wait = steps.send(_ready(wait))
        except StopIteration as end:
            value: T = end.value
            return value


def _ready(wait: Wait) -> bool:
    left_s = None if wait.deadline is None else max(wait.deadline - _now(), 0.0)
    if wait.sock is None:
        time.sleep(left_s or 0.0)
        return True
    poll = select.poll()
    poll.register(wait.sock, select.POLLOUT if wait.for_writing else select.POLLIN)
    return bool(poll.poll(None if left_s is None else left_s * 1000))
