"""Conversations with a daemon whose other side costs next to nothing: prepared messages, one thread for all.

Ganeti's wconfd tells an owner of its lock by SIGHUP; a conversation may sleep until one comes.

A client that makes and reads each message by the rules takes longer for it than the daemon does, and on two
cores it would be the client that is measured.
"""

import contextlib
import select
import signal
import socket
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import orjson

from protocol.envelope import request_bytes
from protocol.framing import Framer, pack
from protocol.messages import Request, positional

_CHUNK: Final = 65536

# in place of a message: sleep until this process has got a SIGHUP since the last message was sent
SLEEP: Final = b""
# what it says next, prepared; gets the result of the reply, None after a sleep
Conversation = Generator[bytes, Any, None]


def prepared(request: Request[Any]) -> bytes:
    return pack(request_bytes(request.METHOD, positional(request)))


@attrs.define(eq=False)
class _Line:
    """A conversation on its connection."""

    sock: socket.socket
    conversation: Conversation
    framer: Framer = attrs.Factory(Framer)
    is_asleep: bool = False
    # SIGHUPs of the process when it last said something
    hang_ups: int = 0

    def go_on(self, result: object, hang_ups: int) -> None:
        """Say what comes next. Raises: StopIteration: the conversation has ended."""
        said = self.conversation.send(result)
        while said == SLEEP and hang_ups > self.hang_ups:
            self.hang_ups = hang_ups
            said = self.conversation.send(None)
        self.is_asleep = said == SLEEP
        if not self.is_asleep:
            self.hang_ups = hang_ups
            self.sock.sendall(said)


def hold(socket_path: Path, conversations: Sequence[Conversation]) -> None:
    """Hold all of them at once, each on a connection of its own, to their ends; only in the main thread.

    Raises: AssertionError: a call failed.
    """
    with select.epoll() as epoll, _hang_ups() as hang_ups:
        epoll.register(hang_ups, select.EPOLLIN)
        count = 0
        lines: dict[int, _Line] = {}
        for conversation in conversations:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(str(socket_path))
            epoll.register(sock, select.EPOLLIN)
            lines[sock.fileno()] = _Line(sock, conversation)
            lines[sock.fileno()].go_on(None, count)
        while lines:
            for fd, _ in epoll.poll():
                if fd == hang_ups.fileno():
                    count += len(hang_ups.recv(_CHUNK))
                    _go_on(lines, [each for each, line in lines.items() if line.is_asleep], None, count)
                    continue
                for reply in lines[fd].framer.feed(lines[fd].sock.recv(_CHUNK)):
                    answer = orjson.loads(reply)
                    assert answer["success"], answer
                    _go_on(lines, [fd], answer["result"], count)


def _go_on(lines: dict[int, _Line], descriptors: Sequence[int], result: object, hang_ups: int) -> None:
    for fd in descriptors:
        try:
            lines[fd].go_on(result, hang_ups)
        except StopIteration:
            lines.pop(fd).sock.close()


@contextlib.contextmanager
def _hang_ups() -> Iterator[socket.socket]:
    """A socket that gets a byte for each SIGHUP."""
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        handler, descriptor = signal.signal(signal.SIGHUP, _ignore), signal.set_wakeup_fd(writer.fileno())
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(descriptor)
            signal.signal(signal.SIGHUP, handler)


def _ignore(*_: object) -> None:
    """A handler, so that the signal wakes this process and does not end it."""
