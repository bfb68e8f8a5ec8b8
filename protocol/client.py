"""Call a daemon from a trio program, over one Unix connection.

Source: `protocol.conversation`.
"""

from collections.abc import Callable
from contextlib import closing
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import trio

from common.errors import RemoteError, Unavailable
from protocol.conversation import DaemonConversation, Steps, Wait
from protocol.envelope import read_event, read_reply
from protocol.messages import AnyRequest, Request, structure_reply
from protocol.peer import Speaker

R = TypeVar("R")
T = TypeVar("T")


class Client:
    """One connection to a daemon; opened by the first call, and again after it was lost.

    Tasks may share a client: their calls run one after the other. A call that may wait for
    long (for a lock, for a job) needs a client of its own.

    Args:
        daemon: name of the daemon in error texts.
    """

    def __init__(self, path: Path, *, daemon: str = "the daemon") -> None:
        self._talk = DaemonConversation(path, daemon, trio.current_time)
        # held while a call is in progress
        self._turn = trio.Lock()

    @classmethod
    async def connect(cls, path: Path, *, daemon: str = "the daemon") -> Self:
        """Make a client whose connection is open; one attempt.

        Raises: Unavailable, Denied: see `dial`.
        """
        client = cls(path, daemon=daemon)
        await trio.lowlevel.checkpoint()
        await client._carry_out(client._talk.open())
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
        return await self._carry_out(self._talk.exchange(request, speaker))

    async def call_retrying(self, request: Request[R], timeout_s: float, speaker: Speaker | None = None) -> R:
        """Like `call`, but survives restarts of the daemon: sends the same request again.

        Raises:
            RemoteError, Denied, InvalidRequest, ProtocolError: as `call`.
            Unavailable: there was no reply within `timeout_s` seconds.
        """
        retries = self._talk.retries(request, timeout_s)
        while True:
            with trio.move_on_after(retries.left_s):
                try:
                    return await self.call(request, speaker)
                except Unavailable as error:
                    retries.failed(error)
            await trio.sleep(retries.pause_s())

    async def subscribe(self, request: Request[R], speaker: Speaker | None = None) -> R:
        """Send a request whose reply begins a stream; `event` then returns its events.

        The connection now belongs to the stream: a client with a subscription makes no other calls.

        Args, Raises, Cancellation: as `call`.
        """
        return await self.call(request, speaker)

    async def event(self) -> tuple[str, list[object]]:
        """Wait for the next event of the stream; return its name and parameters.

        Raises:
            RemoteError: the daemon has ended the stream, with this reason; the connection is closed.
            ConnectionLost: the connection is gone; whether there were more events is unknown.
            ProtocolError: the message is not an event.
        Cancellation: the connection is closed.
        """
        message = await self.message()
        try:
            return read_event(message)
        except RemoteError:
            # the daemon closes it, too, which the next call may be too early to see
            self.close()
            raise

    async def message(self) -> bytes:
        """As `event`, but return the message as it came, also one that ends the stream.

        Raises: ConnectionLost: as `event`.
        """
        message = await self._carry_out(self._talk.message())
        # there is no limit of time
        assert message is not None
        return message

    def close(self) -> None:
        """Close the connection, even during a call of another task, which then gets ConnectionLost."""
        if self._talk.sock is not None:
            trio.lowlevel.notify_closing(self._talk.sock)
        self._talk.close()

    async def aclose(self) -> None:
        """`close` as an event of the loop."""
        self.close()
        await trio.lowlevel.checkpoint()

    async def _take_turn(self) -> None:
        """Wait for calls under way; without a turn of the event loop if there is none."""
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()

    async def _carry_out(self, steps: Steps[T]) -> T:
        await self._take_turn()
        try:
            # given up, it closes the connection
            with closing(steps):
                wait = next(steps)
                while True:
                    try:
                        is_ready = await _ready(wait)
                    except trio.ClosedResourceError as error:
                        wait = steps.throw(ConnectionAbortedError(str(error)))
                    else:
                        wait = steps.send(is_ready)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            self._turn.release()


async def _ready(wait: Wait) -> bool:
    with trio.CancelScope(deadline=inf if wait.deadline is None else wait.deadline) as scope:
        if wait.sock is None:
            await trio.sleep_forever()
        elif wait.for_writing:
            await trio.lowlevel.wait_writable(wait.sock)
        else:
            await trio.lowlevel.wait_readable(wait.sock)
    return not scope.cancelled_caught
