"""HTTP over one connection to a member of etcd, one request at a time.

Source: lease.md 1.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs
import h11

from protocol.etcd.wire import Broken, Wire

OK: Final = 200
# a reply of more bytes is taken for a fault
MAX_REPLY: Final = 256 * 2**20


@attrs.frozen
class HttpReply:
    status: int
    body: bytes


class Connection:
    """HTTP over one connection, one request at a time. Raises, all methods: Broken."""

    def __init__(self, wire: Wire, host: str) -> None:
        self._wire = wire
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        # what has come of a reply in lines
        self._lines = bytearray()

    @property
    def is_done(self) -> bool:
        """Whether another request may follow."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    @property
    def may_be_kept(self) -> bool:
        return self._wire.may_be_kept

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        lines = [("Host", self._host), ("Content-Length", str(len(body))), *headers.items()]
        head = self._http.send(h11.Request(method=method, target=path, headers=lines)) or b""
        # one packet for most requests
        await self._wire.send(head + (self._http.send(h11.Data(data=body)) or b""))
        self._http.send(h11.EndOfMessage())

    async def reply(self) -> HttpReply:
        return HttpReply(await self.head(), await self.body())

    async def body(self) -> bytes:
        """Return all of the reply that follows its head."""
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > MAX_REPLY:
                raise Broken(f"its reply has more than {MAX_REPLY} bytes")
        if not isinstance(event, h11.EndOfMessage):
            raise Broken("it closed the connection before its reply was whole")
        return bytes(body)

    async def head(self) -> int:
        """Return the status of the reply."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code
            if not isinstance(event, h11.InformationalResponse):
                raise Broken("it closed the connection before it replied")

    async def line(self) -> bytes:
        """Return the next line of a reply that comes in lines."""
        while (end := self._lines.find(b"\n")) < 0:
            event = await self._event()
            if not isinstance(event, h11.Data):
                raise Broken(
                    "it ended its reply" if isinstance(event, h11.EndOfMessage) else "it closed the connection"
                )
            self._lines += event.data
            if len(self._lines) > MAX_REPLY:
                raise Broken(f"a line of its reply has more than {MAX_REPLY} bytes")
        line = bytes(self._lines[:end])
        del self._lines[: end + 1]
        return line

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


@contextmanager
def closing_unless_done(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
