"""One connection: anycorn's HTTP/1.1 on it, with our failures, and over as soon as its peer has closed it.

Theory. anycorn would change to HTTP/2 or to a web socket if a client asks for that; nobody needs either here, so such
a request is one of HTTP/1.1. Its replies to what is no request are empty; here they have the body that the daemon's
clients can read. A connection that its peer has closed would keep its place and its descriptor until it had been idle
for long: it ends at once.

Source: rapi.md 4.
"""

from collections.abc import Callable
from http import HTTPStatus
from math import inf
from typing import Final

import anyio
import anyio.abc
import attrs
import h11
import trio
from anycorn import Config
from anycorn.events import Closed, Event, RawData, Updated
from anycorn.protocol.events import Body, Response
from anycorn.protocol.events import Event as StreamEvent
from anycorn.protocol.h11 import STREAM_ID, H11Protocol
from anycorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from anycorn.task_group import TaskGroup
from anycorn.tcp_server import TCPServer
from anycorn.typing import AppWrapper, ConnectionState, H11SendableEvent
from anycorn.utils import build_tls_extension, parse_socket_addr
from anycorn.worker_context import WorkerContext

# anycorn's server of one connection, with fewer wake-ups and system calls.
#
# Theory. For a small reply anycorn sends three times: the head, the body, and nothing. Each costs a record of TLS and a
# system call, and the client wakes up for each. Here a head that announces a body is kept until the body is there, and
# nothing is not sent. For each pause between two requests anycorn makes a task and cancels it; here one task of the
# connection looks after all pauses.
#
# Source: DESIGN section 9.


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


# None: not one of the network
_Address = tuple[str, int] | None
# headers of a reply that anycorn makes by itself
_OF_ANYCORN: Final = [(b"content-length", b"0"), (b"connection", b"close")]


@attrs.frozen
class BadRequestReply:
    """The reply to what is no request."""

    content_type: str
    body: bytes

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        length = b"%d" % len(self.body)
        return [
            (b"content-type", self.content_type.encode()),
            (b"content-length", length),
            (b"connection", b"close"),
        ]


# makes the reply with a status
DrawFailure = Callable[[int], BadRequestReply]


def plain_failure(status: int) -> BadRequestReply:
    """A line of text."""
    return BadRequestReply("text/plain", f"{status} {HTTPStatus(status).phrase}\n".encode())


class _Http11(H11Protocol):
    """HTTP/1.1, and nothing that a client could make of it."""

    draw_failure: DrawFailure = staticmethod(plain_failure)

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request is here, but not yet all of its headers."""
        return self.stream is None and bool(self.connection.trailing_data[0])

    async def fail(self, status: int) -> None:
        """Refuse what is no request."""
        await self._send_error_response(status)

    async def _check_protocol(self, event: h11.Request) -> None:
        pass

    async def _create_stream(self, request: h11.Request) -> None:
        kept = [(name, value) for name, value in request.headers if name != b"upgrade"]
        if len(kept) < len(list(request.headers)):
            request = h11.Request(
                method=request.method, target=request.target, headers=kept, http_version=request.http_version
            )
        await super()._create_stream(request)

    async def _send_error_response(self, status_code: int) -> None:
        failure = self.draw_failure(status_code)
        headers = [*failure.headers, *self.config.response_headers("h11")]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=failure.body))
        await self._send_h11_event(h11.EndOfMessage())

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        if isinstance(event, h11.Response):
            self._note_beginning()
        await super()._send_h11_event(event)

    def _note_beginning(self) -> None:
        """Tell the stream that its reply has begun.

        anycorn would do that after the sending, and answer again for an application that is cancelled before it.
        """
        if isinstance(self.stream, HTTPStream) and self.stream.state is ASGIHTTPState.REQUEST:
            self.stream.state = ASGIHTTPState.RESPONSE

    async def stream_send(self, event: StreamEvent) -> None:
        if not isinstance(event, Response) or list(event.headers) != _OF_ANYCORN:
            await super().stream_send(event)
            return
        failure = self.draw_failure(event.status_code)
        await super().stream_send(Response(STREAM_ID, failure.headers, event.status_code))
        await super().stream_send(Body(STREAM_ID, failure.body))


class HttpConnection(LeanServer):
    """HTTP on one connection.

    Args:
        is_idle: is told whether no request is under way, each time that this changes.
    """

    is_closed = False

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: ConnectionState,
        stream: anyio.abc.SocketStream,
        *,
        draw_failure: DrawFailure,
        is_idle: Callable[[bool], None],
    ) -> None:
        super().__init__(app, config, context, state, stream)
        self._draw_failure = draw_failure
        self._is_idle = is_idle

    async def run(self) -> None:
        """Serve requests until the connection is over."""
        try:
            ends = self._ends()
            async with TaskGroup() as group:
                self._task_group = group
                self._http = self._protocol(group, *ends)
                # anycorn's wrapper chooses between protocols; there is one
                self.protocol = self._http  # type: ignore[assignment]
                await self.idle_task.restart(group, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass
        finally:
            await self._close()

    def _ends(self) -> tuple[_Address, _Address]:
        """The addresses of client and server. Raises: OSError: the client has gone."""
        raw = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        client, server = raw.getpeername(), raw.getsockname()
        return parse_socket_addr(raw.family, client), parse_socket_addr(raw.family, server)

    def _protocol(self, group: TaskGroup, client: _Address, server: _Address) -> _Http11:
        try:
            tls = build_tls_extension(self.config, self.stream)
        except anyio.TypedAttributeLookupError:
            tls = None
        state = ConnectionState(self.state.copy())
        http = _Http11(self.app, self.config, self.context, group, state, client, server, self.protocol_send, tls)
        http.draw_failure = self._draw_failure
        return http

    async def _read_data(self) -> None:
        try:
            await super()._read_data()
        finally:
            self.is_closed = True
            await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            # a call that ends now would let the connection wait for the next one
            if self.is_closed:
                return
            self._is_idle(event.idle)
        try:
            await super().protocol_send(event)
        except anyio.EndOfStream:
            # the peer has hung up before the reply
            await self.protocol.handle(Closed())

    async def _initiate_server_close(self) -> None:
        if self._http.has_begun:
            # its headers took too long
            await self._http.fail(HTTPStatus.REQUEST_TIMEOUT)
        await super()._initiate_server_close()
