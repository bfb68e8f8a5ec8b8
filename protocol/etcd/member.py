"""One member of etcd: its connections, and HTTP over them.

Theory. Each request that is under way has a connection to itself; connections are kept for the next. The gateway keeps
them open. A connection whose request was given up is closed, since its reply may still come.

Source: lease.md 1.
"""

import ssl
from collections.abc import Mapping
from typing import Final

import attrs
import h11

from protocol.etcd.address import Endpoint
from protocol.etcd.wire import Broken, Wire, connect

# a reply of more bytes is taken for a fault
MAX_REPLY: Final = 256 * 2**20
_MAX_KEPT: Final = 16


@attrs.frozen
class HttpReply:
    status: int
    body: bytes


class Member:
    """A member; any number of tasks may ask it at a time. Args: context: for TLS; None: plain."""

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
        self.endpoint = endpoint
        self._context = context
        # the one that was used last comes last
        self._idle: list[_Connection] = []

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpReply:
        """POST a request. Raises: Broken: there is no whole reply; the member may have carried the request out.

        Cancellation: likewise.
        """
        connection = await self._connection()
        try:
            await connection.send(path, body, headers)
            reply = await connection.reply()
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return reply

    async def _connection(self) -> "_Connection":
        while self._idle:
            kept = self._idle.pop()
            if kept.may_be_kept:
                return kept
            kept.close()
        return _Connection(await connect(self.endpoint, self._context), self.endpoint.place)

    def _keep(self, connection: "_Connection") -> None:
        if connection.is_done and len(self._idle) < _MAX_KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        while self._idle:
            self._idle.pop().close()


class _Connection:
    def __init__(self, wire: Wire, host: str) -> None:
        self._wire = wire
        self._host = host
        self._http = h11.Connection(h11.CLIENT)

    @property
    def is_done(self) -> bool:
        """Whether another request may follow."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    @property
    def may_be_kept(self) -> bool:
        return self._wire.may_be_kept

    async def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        lines = [("Host", self._host), ("Content-Length", str(len(body))), *headers.items()]
        head = self._http.send(h11.Request(method="POST", target=path, headers=lines)) or b""
        # one packet for most requests
        await self._wire.send(head + (self._http.send(h11.Data(data=body)) or b""))
        self._http.send(h11.EndOfMessage())

    async def reply(self) -> HttpReply:
        status = await self.head()
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > MAX_REPLY:
                raise Broken(f"its reply has more than {MAX_REPLY} bytes")
        if not isinstance(event, h11.EndOfMessage):
            raise Broken("it closed the connection before its reply was whole")
        return HttpReply(status, bytes(body))

    async def head(self) -> int:
        """Return the status of the reply."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code
            if not isinstance(event, h11.InformationalResponse):
                raise Broken("it closed the connection before it replied")

    async def _event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._wire.receive())
        except h11.RemoteProtocolError as error:
            raise Broken(f"its reply is cut, or not HTTP: {error}") from error
        if isinstance(event, h11.Event):
            return event
        raise Broken("it sent more than its reply")

    def close(self) -> None:
        self._wire.close()
