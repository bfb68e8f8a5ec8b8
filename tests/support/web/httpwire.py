"""Bare HTTP clients, cheap enough to load a server: no library, no checks beyond lengths.

Source: RFC 9112.
"""

import base64
import socket
import ssl
from pathlib import Path
from typing import Self

import orjson

# bytes read at once
_CHUNK = 256 * 1024


class Wire:
    """One connection that is kept open."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._received = b""

    @classmethod
    def local(cls, path: Path) -> Self:
        """Over the Unix socket."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return cls(sock)

    @classmethod
    def remote(cls, host: str, port: int, context: ssl.SSLContext) -> Self:
        """Over the network, encrypted."""
        sock = socket.create_connection((host, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(context.wrap_socket(sock))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def call(self, request: bytes) -> bytes:
        """Send a request; return the body of its reply, which must be a success."""
        self.sock.sendall(request)
        return self.reply()

    def reply(self) -> bytes:
        """The body of the next reply."""
        head = self.head()
        length = int(_field(head, b"content-length"))
        while len(self._received) < length:
            self._receive()
        body, self._received = self._received[:length], self._received[length:]
        status = int(head[9:12])
        assert 200 <= status < 300, (status, body[:300])
        return body

    def head(self) -> bytes:
        """The status and headers of the next reply, or of a stream."""
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head

    def _receive(self) -> None:
        piece = self.sock.recv(_CHUNK)
        if not piece:
            raise ConnectionResetError("the server has closed the connection")
        self._received += piece


def request(verb: str, path: str, body: object = None, user: tuple[str, str] | None = None) -> bytes:
    """A request as bytes."""
    lines = [f"{verb} {path} HTTP/1.1", "Host: bench"]
    if user is not None:
        lines.append(f"Authorization: Basic {base64.b64encode(':'.join(user).encode()).decode()}")
    content = b"" if body is None else orjson.dumps(body)
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def _field(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    raise AssertionError(f"no {name!r} in {head!r}")
