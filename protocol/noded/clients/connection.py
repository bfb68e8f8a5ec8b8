"""One connection to a node daemon: a socket that never blocks, and its channel.

The clients wait until the socket is ready, each in its way, and then call `advance`.

Source: noded.md section 2.
"""

import errno
import os
import socket
import ssl
from typing import Final

from common.errors import explain_os_error
from protocol.dial import is_usable
from protocol.noded.clients.channel import Channel, HttpReply, HttpRequest
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Breakdown, FailureKind

CHUNK: Final = 64 * 2**10
# limit for connection and handshake together, seconds
CONNECT_S: Final = 5.0
# connections of a client at a time, kept ones included
MAX_CONNECTIONS: Final = 30


class NodeConnection:
    """A connection that is being made, or is there.

    Raises: Breakdown: it cannot even be begun.
    """

    def __init__(self, node: NodeAddress, context: ssl.SSLContext) -> None:
        self.node = node
        # connections of an older context are not used for new calls
        self.context = context
        # the reply to the last request, once it is whole
        self.reply: HttpReply | None = None
        self._channel = Channel(context, node)
        # encrypted bytes that the network has not taken yet
        self._rest = memoryview(b"")
        self._is_connected = False
        # the peer takes no more bytes; what it has sent before is still read
        self._is_deaf = False
        self.sock = self._begin()

    def _begin(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.node.ip else socket.AF_INET
        try:
            # a name would be looked up, which blocks
            socket.inet_pton(family, self.node.ip)
        except OSError as error:
            raise self._unsent("its address is not an IP address") from error
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError as error:
            # this says nothing about the node
            raise self._unsent(explain_os_error(error)) from error
        code = sock.connect_ex((self.node.ip, self.node.port))
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            raise self._unreachable(OSError(code, os.strerror(code)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    @property
    def is_up(self) -> bool:
        """Whether connection and handshake are done."""
        return self._channel.is_up

    @property
    def has_reply_begun(self) -> bool:
        return self._channel.has_reply_begun

    @property
    def wants_read(self) -> bool:
        return self._is_connected

    @property
    def wants_write(self) -> bool:
        return not self._is_connected or bool(self._rest)

    @property
    def may_be_kept(self) -> bool:
        """Whether another request may be sent, as far as is known here."""
        return self._channel.is_reusable and not self._is_deaf and is_usable(self.sock)

    def ask(self, request: HttpRequest) -> None:
        """Take a request; `advance` sends it."""
        self.reply = None
        self._channel.ask(request)

    def advance(self) -> None:
        """Go as far as possible without waiting: connect, shake hands, send, receive one chunk.

        Raises: Breakdown: there will be no reply; the caller closes the connection.
        """
        if not self._is_connected and not self._has_connected():
            return
        self._send()
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken(error) from error
        self.reply = self._channel.receive(data)
        self._send()

    def close(self) -> None:
        self.sock.close()

    def _has_connected(self) -> bool:
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            raise self._unreachable(OSError(code, os.strerror(code)))
        try:
            self.sock.getpeername()
        except OSError:
            return False
        self._is_connected = True
        return True

    def _send(self) -> None:
        while not self._is_deaf:
            if not self._rest:
                self._rest = memoryview(self._channel.to_send())
                if not self._rest:
                    return
            try:
                self._rest = self._rest[self.sock.send(self._rest) :]
            except BlockingIOError:
                return
            except OSError:
                # perhaps it has replied before it had the whole request, or has said why it ends
                self._is_deaf = True
                self._rest = memoryview(b"")

    def _unsent(self, reason: str) -> Breakdown:
        return Breakdown(FailureKind.UNSENT, f"{self.node} was not asked: {reason}")

    def _unreachable(self, error: OSError) -> Breakdown:
        reason = (error.strerror or str(error)).lower()
        return Breakdown(FailureKind.UNREACHABLE, f"{self.node} is not reached: {reason}")

    def _broken(self, error: OSError) -> Breakdown:
        if not self.is_up:
            return self._unreachable(error)
        return self._channel.lost((error.strerror or str(error)).lower())
