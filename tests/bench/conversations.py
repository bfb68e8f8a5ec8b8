"""Conversations with a daemon whose other side costs next to nothing: prepared messages, one thread for all.

A client that makes and reads each message by the rules takes longer for it than the daemon does, and on two
cores it would be the client that is measured.
"""

import select
import socket
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from protocol.envelope import request_bytes
from protocol.framing import Framer, pack
from protocol.messages import Request, positional

_CHUNK: Final = 65536

# what it says next, prepared; gets the result of the reply
Conversation = Generator[bytes, Any, None]


def prepared(request: Request[Any]) -> bytes:
    return pack(request_bytes(request.METHOD, positional(request)))


def hold(socket_path: Path, conversations: Sequence[Conversation]) -> None:
    """Hold all of them at once, each on a connection of its own, to their ends.

    Raises: AssertionError: a call failed.
    """
    with select.epoll() as epoll:
        lines = {}
        for conversation in conversations:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(str(socket_path))
            epoll.register(sock, select.EPOLLIN)
            lines[sock.fileno()] = sock, Framer(), conversation
            sock.sendall(next(conversation))
        while lines:
            for fd, _ in epoll.poll():
                sock, framer, conversation = lines[fd]
                for reply in framer.feed(sock.recv(_CHUNK)):
                    answer = orjson.loads(reply)
                    assert answer["success"], answer
                    try:
                        sock.sendall(conversation.send(answer["result"]))
                    except StopIteration:
                        del lines[fd]
                        sock.close()
