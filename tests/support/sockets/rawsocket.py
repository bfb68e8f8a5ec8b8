"""A caller that keeps no rules: it sends any bytes, and reads what comes back, if it likes."""

import contextlib
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from protocol.framing import ETX
from tests.support.wait import PATIENCE_S


class RawCaller:
    """One connection; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # without a time limit it waits for a place among the callers
        self.sock.connect(str(path))
        self.sock.settimeout(PATIENCE_S)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of it, as far as the daemon takes it."""
        # refused before its end; the answer says why
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)

    def receive(self) -> bytes | None:
        """The next message; None: the daemon closed the connection."""
        while ETX not in self._rest:
            try:
                data = self.sock.recv(2**16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._rest += data
        message, _, self._rest = self._rest.partition(ETX)
        return message

    def ask(self, payload: bytes) -> bytes | None:
        """Send a message and take its answer."""
        self.send(payload + ETX)
        return self.receive()

    def call(self, method: str, *args: Any) -> Any:
        """Call in Ganeti's dialect; answers the decoded reply, whatever it says."""
        answer = self.ask(orjson.dumps({"method": method, "args": args}))
        assert answer is not None, f"{method}: the connection was closed without an answer"
        return orjson.loads(answer)
