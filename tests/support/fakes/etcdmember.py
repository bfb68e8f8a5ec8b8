"""A member of etcd that replies what a test says, for replies that no release here gives.

async with scripted_member() as member:
    member.replies["/v3/kv/range"] = [reply(503, b"..."), HANG]
    client = EtcdClient(address_of(member))
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import h11
import trio

from protocol.etcd.address import Endpoint, EtcdAddress
from tests.support.etcds.etcd import HOST
from tests.support.wait import PATIENCE_S

# a script's word for a reply that never comes
HANG: Final = b""
_CHUNK: Final = 65536


def reply(status: int, body: bytes, *, length: int | None = None) -> bytes:
    """A whole response. Args: length: what it says that its body has; more than that: the response is cut."""
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\n\r\n".encode() + body


def stream(*lines: bytes) -> bytes:
    """A response that goes on after these lines."""
    chunks = b"".join(f"{len(line) + 1:x}\r\n".encode() + line + b"\n\r\n" for line in lines)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks


class ScriptedMember:
    """Replies to each path with the next of its replies; the last one again and again.

    A response that is not whole is cut: the connection is closed after it, unless it is a stream.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.replies: dict[str, list[bytes]] = {"/version": [reply(200, b'{"etcdserver":"3.4.23"}')]}
        # path, headers and body of each request, in order
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    def asked(self, path: str) -> int:
        return sum(each[0] == path for each in self.requests)

    def next_reply(self, path: str) -> bytes:
        script = self.replies.get(path, [reply(404, b"Not Found\n")])
        return script.pop(0) if len(script) > 1 else script[0]

    async def serve(self, connection: trio.SocketStream) -> None:
        http = h11.Connection(h11.SERVER)
        async with connection:
            while await self._exchange(connection, http):
                http.start_next_cycle()

    async def _exchange(self, connection: trio.SocketStream, http: h11.Connection) -> bool:
        """Returns: whether another request may follow."""
        head, body = None, b""
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif event is h11.NEED_DATA:
                http.receive_data(await connection.receive_some(_CHUNK))
            else:
                return False
        assert head is not None
        path = head.target.decode()
        self.requests.append((path, {name.decode(): value.decode() for name, value in head.headers}, body))
        raw = self.next_reply(path)
        if raw == HANG:
            await trio.sleep_forever()
        await connection.send_all(raw)
        if b"chunked" in raw:
            await trio.sleep_forever()
        _, _, sent = raw.partition(b"\r\n\r\n")
        if f"Content-Length: {len(sent)}\r\n".encode() not in raw:
            return False
        http.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
        http.send(h11.EndOfMessage())
        return True


def address_of(*members: ScriptedMember, request_limit_s: float = PATIENCE_S) -> EtcdAddress:
    """Args: request_limit_s: short only where a limit must pass: else a test that stands still would ask again."""
    return EtcdAddress(tuple(member.endpoint for member in members), request_limit_s)


@asynccontextmanager
async def scripted_member() -> AsyncIterator[ScriptedMember]:
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=HOST)
        member = ScriptedMember(Endpoint(HOST, listeners[0].socket.getsockname()[1]))
        nursery.start_soon(trio.serve_listeners, member.serve, listeners)
        yield member
        nursery.cancel_scope.cancel()
