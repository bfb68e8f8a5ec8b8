"""HTTP/1.1 on one connection: h11 reads and writes it, an ASGI application answers.

Theory. One task serves a connection, one request after the other, and the application runs in it. It pulls: `receive`
reads from the network, first the body, which comes no faster than the application takes it, then whether the client
goes. What a client sends in advance waits, a little of it here, the rest in the kernel. A connection is idle until all
headers of a request are there: that is bounded in time, and ends when the server stops. After the reply the connection
is used again if both sides have said all; else it is closed, and so is one that its peer has closed.

A small reply is sent at once: its head waits for the body that it announces. The kernel nearly always takes a reply at
once, so only a socket whose buffer is full is waited for.

Nobody can change to another protocol: a header that asks for it is left out. What is no request gets a reply that the
daemon's clients can read. The host of a request is that of its target, if that names one (`protocol.http.target`).

Source: ASGI 3.0; RFC 9112; rapi.md 4.
"""

import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import attrs
import h11
import trio

from common.system.log import get_log
from protocol.http.target import BadTarget, check_hosts, read_target
from protocol.streamsocket import StreamSocket

# what ASGI passes, as Starlette has it
_Event = MutableMapping[str, Any]
Scope = _Event
Message = _Event
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_log: Final = get_log(__name__)
# bodies from which head and body are sent separately, as joining them would copy much
_LARGE: Final = 64 * 2**10
# bytes of further requests that are taken while one is under way
_AHEAD: Final = 64 * 2**10
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


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


@attrs.frozen
class Serving:
    """What all connections of a listener share."""

    app: Application
    # time without a request after which a connection is closed, seconds
    idle_timeout_s: float
    draw_failure: DrawFailure = plain_failure
    # name of the program, for a header of each reply; empty: there is none
    server: bytes = b""
    # whether each reply has a date
    is_dated: bool = True

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of each reply, besides its own."""
        date = [(b"date", formatdate(time.time(), usegmt=True).encode())] if self.is_dated else []
        return [*date, (b"server", self.server)] if self.server else date


class _Peer:
    """The client, as h11 understands it."""

    def __init__(self, wire: StreamSocket) -> None:
        self.http = h11.Connection(h11.SERVER)
        # whether it sends nothing more
        self.has_ended = False
        # whether it cannot be sent anything: the connection is lost, or the last message was not sent whole
        self.is_broken = False
        self._wire = wire

    async def read(self) -> bool:
        """Wait for its next bytes; return whether there were any."""
        with suppress(OSError):
            if not self.has_ended and (data := await self._wire.receive()):
                self.http.receive_data(data)
                return True
        self.has_ended = True
        return False

    async def write(self, content: bytes) -> None:
        """Send bytes, or nothing to who has gone. Cancellation: the connection is broken."""
        if self.is_broken or not content:
            return
        self.is_broken = True
        with suppress(OSError):
            await self._wire.send(content)
            self.is_broken = False


class HttpConnection:
    """HTTP on one connection.

    Args:
        wire: connected; the caller closes it.
        state: facts about the connection, for the application.
        is_idle: is told whether no request is under way, each time that this changes.
    """

    def __init__(
        self,
        serving: Serving,
        wire: StreamSocket,
        state: Mapping[str, object],
        is_idle: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._serving = serving
        self._wire = wire
        self._state = state
        self._is_idle = is_idle
        self._peer = _Peer(wire)
        self._is_stopping = False
        # of the present pause between two requests
        self._pause: trio.CancelScope | None = None

    def stop(self) -> None:
        """End the connection, at once if it is idle, else after the reply."""
        self._is_stopping = True
        if self._pause is not None:
            self._pause.cancel()

    async def run(self) -> None:
        """Serve requests until the connection is over."""
        try:
            facts = _facts_of(self._wire.sock)
        except OSError:
            # the client has gone
            return
        while (request := await self._next_request()) is not None:
            exchange = _Exchange(self._serving, self._peer, request)
            await exchange.run({**facts, "state": dict(self._state)})
            if self._is_stopping or not exchange.is_over:
                return
            self._peer.http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """Wait for the headers of a request; None: there are no more requests."""
        self._is_idle(True)
        http, request = self._peer.http, None
        with trio.CancelScope(deadline=trio.current_time() + self._serving.idle_timeout_s) as self._pause:
            if self._is_stopping:
                return None
            try:
                request = await self._head()
            except h11.RemoteProtocolError as error:
                _log.info("request.refused", reason=error, status=error.error_status_hint)
                await self._fail(error.error_status_hint)
        is_late, self._pause = self._pause.cancelled_caught, None
        if request is not None:
            self._is_idle(False)
            # the place may have gone to another connection just before
            await trio.lowlevel.checkpoint_if_cancelled()
        elif is_late and http.trailing_data[0] and http.our_state is h11.IDLE:
            # its headers took too long
            await self._fail(HTTPStatus.REQUEST_TIMEOUT)
        return request

    async def _head(self) -> h11.Request | None:
        """Raises: RemoteProtocolError: it is no request."""
        if self._peer.http.trailing_data[0]:
            # it was sent in advance: others have their turn first
            await trio.lowlevel.checkpoint()
        while True:
            event = self._peer.http.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA or not await self._peer.read():
                return None

    async def _fail(self, status: int) -> None:
        await _Exchange(self._serving, self._peer, None).fail(status)


def _facts_of(sock: socket.socket) -> dict[str, object]:
    """What ASGI tells of a connection; of TLS only the caller's certificate. Raises: OSError: the client has gone."""
    client, server = _address(sock, sock.getpeername()), _address(sock, sock.getsockname())
    facts: dict[str, object] = {"client": client, "server": server, "scheme": "http", "extensions": {}}
    if isinstance(sock, ssl.SSLSocket):
        der = sock.getpeercert(binary_form=True)
        chain = [ssl.DER_cert_to_PEM_cert(der)] if der else []
        facts |= {"scheme": "https", "extensions": {"tls": {"client_cert_chain": chain}}}
    return facts


def _address(sock: socket.socket, name: tuple[str, int]) -> tuple[str, int] | None:
    return (name[0], name[1]) if sock.family in (socket.AF_INET, socket.AF_INET6) else None


class _Exchange:
    """A request and its reply.

    Args: request: None: it cannot be read.
    """

    def __init__(self, serving: Serving, peer: _Peer, request: h11.Request | None) -> None:
        self._serving = serving
        self._peer = peer
        self._request = request
        self._has_whole_body = False
        # the status that what the client sends as a body calls for
        self._broken_body: int | None = None
        self._has_begun = False
        self._is_complete = False
        # head of the reply, whose body comes next
        self._head = b""
        # whether the reply has only a head
        self._is_bodiless = request is not None and request.method == b"HEAD"

    async def run(self, facts: Mapping[str, object]) -> None:
        """Let the application answer."""
        if self._request is not None and self._request.method == b"CONNECT":
            # we are no proxy
            await self.fail(HTTPStatus.NOT_IMPLEMENTED)
            return
        scope = self._scope(facts)
        if scope is None:
            await self.fail(HTTPStatus.BAD_REQUEST)
            return
        try:
            await self._serving.app(scope, self._receive, self._send)
        except Exception:
            _log.exception("request.crashed", path=scope["path"][:200])
        if not self._has_begun and not self._peer.has_ended:
            await self.fail(self._broken_body or HTTPStatus.INTERNAL_SERVER_ERROR)
        # of a body that did not come
        await self._peer.write(self._head)

    @property
    def is_over(self) -> bool:
        """Whether both sides have said all, so that another request may follow."""
        http = self._peer.http
        with suppress(h11.RemoteProtocolError):
            while http.their_state is h11.SEND_BODY and isinstance(http.next_event(), h11.Data):
                pass
        return not self._peer.is_broken and http.our_state is h11.DONE and http.their_state is h11.DONE

    async def fail(self, status: int) -> None:
        """Reply to what is no request, or was not answered."""
        failure = self._serving.draw_failure(status)
        await self._send({"type": "http.response.start", "status": status, "headers": failure.headers})
        await self._send({"type": "http.response.body", "body": failure.body})

    def _scope(self, facts: Mapping[str, object]) -> Scope | None:
        """None: the target, the host, or the path cannot be read."""
        request = self._request
        assert request is not None
        headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
        try:
            check_hosts(value for name, value in headers if name == b"host")
            target = read_target(request.method.upper(), request.target)
            text = unquote_to_bytes(target.path).decode()
        except (BadTarget, UnicodeDecodeError):
            return None
        if target.host is not None:
            headers = [(b"host", target.host), *((name, value) for name, value in headers if name != b"host")]
        return {
            **facts,
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode().upper(),
            "path": text,
            "raw_path": target.path,
            "query_string": target.query,
            "root_path": "",
            "headers": headers,
        }

    async def _receive(self) -> Message:
        http = self._peer.http
        while not self._has_whole_body:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as error:
                self._broken_body = error.error_status_hint
                return {"type": "http.disconnect"}
            if isinstance(event, h11.Data):
                return {"type": "http.request", "body": bytes(event.data), "more_body": True}
            if isinstance(event, h11.EndOfMessage):
                self._has_whole_body = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if http.they_are_waiting_for_100_continue:
                await self._peer.write(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            if not await self._peer.read():
                return {"type": "http.disconnect"}
        while len(http.trailing_data[0]) < _AHEAD:
            if self._is_complete or not await self._peer.read():
                return {"type": "http.disconnect"}
        # whoever sends so much ahead is not seen to go before the reply
        return await trio.sleep_forever()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # also if it is cancelled now: nobody else answers then
            self._has_begun = True
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._begin(int(message["status"]), [*message.get("headers", ())])
        elif message["type"] == "http.response.body":
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._go_on(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise ValueError(f"there is no message '{message['type']}' here")

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        head = self._peer.http.send(h11.Response(status_code=status, headers=[*headers, *self._serving.headers]))
        self._is_bodiless = self._is_bodiless or status in _BODILESS
        has_body = any(name.lower() == b"content-length" and value != b"0" for name, value in headers)
        if has_body and not self._is_bodiless:
            self._head = head or b""
        else:
            await self._peer.write(head or b"")

    async def _go_on(self, body: bytes, *, is_last: bool) -> None:
        http, pieces = self._peer.http, [self._head]
        self._head = b""
        if body and not self._is_bodiless:
            pieces += http.send_with_data_passthrough(h11.Data(data=body)) or ()
        if is_last:
            pieces.append(http.send(h11.EndOfMessage()) or b"")
            self._is_complete = True
        for piece in pieces if len(body) >= _LARGE else [b"".join(pieces)]:
            await self._peer.write(piece)
