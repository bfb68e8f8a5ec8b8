"""The job process's side of the handshake with luxid.

Source: protocol.forkserver; luxid.md 9.1.
"""

import contextlib
import socket

import orjson

from common.errors import ProtocolError
from common.system.log import get_log
from protocol.forkserver import GO_AHEAD, REFUSAL, Secrets
from protocol.framing import Framer, pack

_CHUNK = 64 * 2**10
_log = get_log(__name__)


def shake_hands(sock: socket.socket, livelock_path: str) -> Secrets | None:
    """Report to luxid and wait until it permits the start; closes the socket.

    A TERM meanwhile does not end the wait: luxid may already have given the job away, and then this process must
    cancel it.

    Returns: the secrets; None: luxid is gone or sent something else, and the job must not be touched.
    """
    with sock:
        messages = _Messages(sock)
        try:
            sock.setblocking(True)
            sock.sendall(pack(livelock_path.encode()))
            if messages.next() != GO_AHEAD:
                return None
        except (OSError, EOFError):
            return None
        return _take_secrets(messages)


def refuse(sock: socket.socket, reason: str) -> None:
    """Tell luxid that this process cannot start at the moment, through no fault of its job; closes the socket."""
    with sock, contextlib.suppress(OSError):
        sock.setblocking(True)
        sock.sendall(pack(REFUSAL + reason.encode(errors="replace")))


def _take_secrets(messages: "_Messages") -> Secrets:
    # after the go-ahead the file is ours: luxid's death must not stop the job now
    try:
        return _read_secrets(messages.next())
    except (OSError, EOFError, ProtocolError) as error:
        _log.warning("job.no_secrets", error=error)
        return ()


def _read_secrets(payload: bytes) -> Secrets:
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"the secrets are not JSON: {error}") from None
    if not isinstance(value, list) or not all(item is None or isinstance(item, dict) for item in value):
        raise ProtocolError("the secrets are not a list of objects and nulls")
    return value


class _Messages:
    """The messages that arrive on a socket, one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._framer = Framer()
        self._whole: list[bytes] = []

    def next(self) -> bytes:
        """Raises: EOFError: the peer closed; OSError."""
        while not self._whole:
            data = self._sock.recv(_CHUNK)
            if not data:
                raise EOFError("luxid closed the connection")
            self._whole = self._framer.feed(data)
        return self._whole.pop(0)
