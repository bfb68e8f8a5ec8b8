"""anycorn's server of one connection, with fewer wake-ups and system calls.

Theory. For a small reply anycorn sends three times: the head, the body, and nothing. Each costs a record of TLS and a
system call, and the client wakes up for each. Here a head that announces a body is kept until the body is there, and
nothing is not sent. For each pause between two requests anycorn makes a task and cancels it; here one task of the
connection looks after all pauses.

Source: DESIGN section 9.
"""

from math import inf
from typing import Final

import anyio
import anyio.abc
import trio
from anycorn import Config
from anycorn.events import Event, RawData, Updated
from anycorn.tcp_server import TCPServer
from anycorn.typing import AppWrapper, ConnectionState
from anycorn.worker_context import WorkerContext

# bodies from which head and body are sent separately, as joining them would copy much
_LARGE: Final = 64 * 1024
_LENGTH: Final = b"\r\ncontent-length: "
_EMPTY: Final = b"\r\ncontent-length: 0\r\n"


class LeanServer(TCPServer):
    """As `TCPServer`."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: ConnectionState,
        stream: anyio.abc.SocketStream,
    ) -> None:
        super().__init__(app, config, context, state, stream)
        # without a turn of the event loop where nobody else sends
        self.send_lock = anyio.Lock(fast_acquire=True)
        # head of a reply whose body comes next
        self._head = b""
        # whether the head of the present reply was seen
        self._is_in_body = False
        # end of the present pause, on trio's clock; inf: a request is under way
        self._idle_until = trio.current_time() + self.config.keep_alive_timeout
        self._pause: trio.CancelScope | None = None

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            await self._send_rest()
            self._set_idle(event.idle)
        elif isinstance(event, RawData):
            if not self._is_to_wait(event.data):
                await self._send(event.data)
        else:
            await self._send_rest()
            await super().protocol_send(event)

    def _is_to_wait(self, data: bytes) -> bool:
        """Whether this is the head of a reply with a body of known length, which is kept until that comes."""
        if self._is_in_body or data.startswith(b"HTTP/1.1 1"):
            return False
        self._is_in_body = True
        lower = data.lower()
        if _LENGTH not in lower or _EMPTY in lower:
            return False
        self._head = data
        return True

    async def _send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        if head and len(data) >= _LARGE:
            await super().protocol_send(RawData(head))
            head = b""
        if head or data:
            await super().protocol_send(RawData(head + data if head else data))

    async def _send_rest(self) -> None:
        """Send a head whose body does not come, as to a request for the head alone."""
        if self._head:
            await self._send(b"")

    def _set_idle(self, is_idle: bool) -> None:  # the flag is the whole message
        if is_idle:
            self._is_in_body = False
        self._idle_until = trio.current_time() + self.config.keep_alive_timeout if is_idle else inf
        if self._pause is not None:
            self._pause.deadline = self._idle_until

    async def _idle_timeout(self) -> None:
        """Close the connection when it has been idle for too long, or the server ends while it is idle."""
        is_over = False
        while not is_over:
            with trio.CancelScope(deadline=self._idle_until) as self._pause:
                await self.context.terminated.wait()
                if self._idle_until == inf:
                    # the end of the request will close it
                    return
            # a request may have come at the very instant: then this is no pause any more
            is_over = not self._pause.cancelled_caught or self._idle_until <= trio.current_time()
        with anyio.CancelScope(shield=True):
            await self._initiate_server_close()
