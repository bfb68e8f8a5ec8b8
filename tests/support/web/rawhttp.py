"""HTTP by hand: bytes as a hostile or broken client sends them, and the replies to them."""

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import h11
import orjson

from tests.support.machines.nodes import HOST
from tests.support.wait import PATIENCE_S
from tests.support.web.rapid import Web


@attrs.frozen
class RawReply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    # whether the server closed the connection after it
    is_closed: bool

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@contextmanager
def over_socket(web: Web) -> Iterator[socket.socket]:
    """A connection over the Unix socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect(str(web.paths.rapid_socket))
        yield sock


@contextmanager
def over_tls(web: Web) -> Iterator[ssl.SSLSocket]:
    """A connection over the network."""
    with (
        socket.create_connection((HOST, web.port), timeout=PATIENCE_S) as raw,
        web.tls().wrap_socket(raw, server_hostname="localhost") as secure,
    ):
        yield secure


def post(path: str, body: bytes, content_type: str = "application/json", verb: str = "POST") -> bytes:
    """A whole request."""
    head = f"{verb} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def send(sock: socket.socket, data: bytes) -> None:
    """Send as much as the server takes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(data)


def read_reply(sock: socket.socket, verb: str = "POST") -> RawReply:
    """The next final reply on a connection."""
    client = h11.Connection(h11.CLIENT)
    # so that it knows how to read the reply
    client.send(h11.Request(method=verb, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    response: h11.Response | None = None
    body = b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            client.receive_data(sock.recv(65536))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            break
        elif isinstance(event, h11.ConnectionClosed):
            raise AssertionError("the connection was closed without a reply")
    assert response is not None
    headers = {name.decode(): value.decode() for name, value in response.headers}
    return RawReply(response.status_code, headers, body, headers.get("connection") == "close")


def ask(web: Web, data: bytes) -> RawReply:
    """Send these bytes over the Unix socket, and return the reply."""
    with over_socket(web) as sock:
        send(sock, data)
        return read_reply(sock)
