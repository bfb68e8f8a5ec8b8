"""A control connection of the fork server: messages and descriptors in, replies and notifications out.

It never waits. A peer that does not read is dropped at a backlog of `_BACKLOG_BYTES`.
"""

import contextlib
import os
import socket
from collections import deque
from typing import Final

from common.asciijson import ascii_json
from common.errors import GantryError, InvalidRequest
from protocol.envelope import Batch, Call, MalformedRequest, failure, read_message, success
from protocol.forkserver import JobExited, StartJob
from protocol.framing import Framer, MessageTooLarge, pack
from protocol.messages import positional, structure_request

_CHUNK: Final = 64 * 2**10
_MESSAGE_LIMIT: Final = 64 * 2**10
_BACKLOG_BYTES: Final = 4 * 2**20
_FDS_AT_ONCE: Final = 64


class Closed(Exception):
    """the connection is of no more use"""


class ControlConnection:
    """One client's connection; `sock` is non-blocking, and `close` closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._framer = Framer(_MESSAGE_LIMIT)
        # received descriptors that no message has claimed yet, oldest first
        self._fds: deque[int] = deque()
        self._unsent = bytearray()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> list[bytes]:
        """Return the messages that have arrived.

        Raises: Closed: the peer has gone, or sent something that is not a message.
        """
        try:
            data, fds, flags, _ = socket.recv_fds(self.sock, _CHUNK, _FDS_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Closed from error
        self._fds += fds
        if not data or flags & socket.MSG_CTRUNC:
            # descriptors that did not fit are lost, so the rest cannot be assigned to their messages
            raise Closed
        try:
            return self._framer.feed(data)
        except MessageTooLarge as error:
            raise Closed from error

    def claim_fd(self) -> socket.socket:
        """Return the socket that came with the current message.

        Raises: InvalidRequest: no descriptor came, or it is not a socket.
        """
        if not self._fds:
            raise InvalidRequest(f"{StartJob.METHOD} needs the job's end of a socket pair as ancillary data")
        fd = self._fds.popleft()
        try:
            return socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            raise InvalidRequest(f"the descriptor that came with {StartJob.METHOD} is not a socket") from None

    def drop_unclaimed_fds(self) -> None:
        """Close descriptors that came with messages without a use for them, unless a message is still incomplete."""
        while self._fds and not self._framer.pending:
            os.close(self._fds.popleft())

    def send(self, payload: bytes) -> None:
        """Send a message, or keep it until the peer reads.

        Raises: Closed: the peer has gone or does not read.
        """
        self._unsent += pack(payload)
        self.flush()

    def flush(self) -> None:
        """Send as much as the peer takes. Raises: Closed."""
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            if len(self._unsent) > _BACKLOG_BYTES:
                raise Closed from None
        except OSError as error:
            raise Closed from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            while self._fds:
                os.close(self._fds.popleft())
        self.sock.close()


def read_start(payload: bytes) -> tuple[Call, StartJob] | bytes | None:
    """Read one control message.

    Returns: the call and its request; or the reply that refuses it; None: a notification, which
        gets no reply, and of which none is known here.
    """
    try:
        call = read_message(payload)
    except MalformedRequest as error:
        return failure(error, error)
    if isinstance(call, Batch):
        call_id = MalformedRequest("batches are not served here; send one request a message")
        return failure(call_id, call_id)
    if call.notification:
        return None
    try:
        if call.method != StartJob.METHOD:
            raise InvalidRequest(f"unknown method {call.method[:80]!r}; the fork server knows {StartJob.METHOD}")
        request = structure_request(StartJob, call.params)
    except GantryError as error:
        return failure(call, error)
    assert isinstance(request, StartJob)
    return call, request


def started(call: Call, pid: int) -> bytes:
    """The reply to a start."""
    return success(call, pid)


def exited(note: JobExited) -> bytes:
    """The notification that a job process has ended."""
    return ascii_json({"jsonrpc": "2.0", "method": note.METHOD, "params": positional(note)})
