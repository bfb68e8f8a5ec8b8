"""Calls to wconfd as bytes on a socket, in both dialects, with nothing of our own client in between."""

import json
import select
import socket
from pathlib import Path
from typing import Any

from tests.support.wait import PATIENCE_S

ETX = b"\x03"
WireOwner = list[Any]


class Refused(Exception):
    """The daemon answered with an error; the text is its message."""


class Wire:
    """One connection."""

    def __init__(self, path: Path, dialect: str = "ganeti") -> None:
        self._is_ganeti = dialect == "ganeti"
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # without a time limit it waits for a place among the callers
        self._sock.connect(str(path))
        self._sock.settimeout(PATIENCE_S)
        self._buffer = b""

    def __call__(self, method: str, *args: Any) -> Any:
        """Raises: Refused."""
        self.send(method, *args)
        return self.result()

    def send(self, method: str, *args: Any) -> None:
        message: dict[str, Any] = {"method": method, "args": args}
        if not self._is_ganeti:
            message = {"jsonrpc": "2.0", "method": method, "params": args, "id": 1}
        self.send_bytes(json.dumps(message).encode() + ETX)

    def send_bytes(self, data: bytes) -> None:
        self._sock.sendall(data)

    def result(self) -> Any:
        """Raises: Refused; EOFError: the daemon closed the connection."""
        reply = self.reply()
        if self._is_ganeti:
            if reply["success"]:
                return reply["result"]
            raise Refused(reply["result"] if isinstance(reply["result"], str) else reply["result"][1][0])
        if "error" in reply:
            raise Refused(reply["error"]["message"])
        return reply["result"]

    def reply(self) -> Any:
        """The next reply as it is. Raises: EOFError."""
        while ETX not in self._buffer:
            data = self._sock.recv(2**16)
            if not data:
                raise EOFError
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(ETX)
        return json.loads(message)

    def is_silent(self) -> bool:
        """Whether no reply has come yet."""
        return not self._buffer and not select.select([self._sock], [], [], 0)[0]

    def half_close(self) -> None:
        """Say nothing more, but listen on."""
        self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()
