"""What both clients share: the choice of peers, the pauses, and the socket."""

import os
import random
import socket
import uuid
from collections.abc import Iterator, Sequence
from typing import Final

from common.errors import Unavailable
from protocol.confd.gathering import Gathering, Peer, coverage
from protocol.confd.questions import Argument, Question

# time after which a question is given up; Ganeti's
EXPIRE_S: Final = 10.0
# pause before a question is sent again to those that are silent, as datagrams get lost; the next ones are longer
_FIRST_PAUSE_S: Final = 0.5


def begin(
    key: bytes, peers: Sequence[Peer], question: Question, argument: Argument, *, wanted: int | None, asks_all: bool
) -> Gathering:
    """Choose whom to ask, at random. Args: wanted: number of peers. asks_all: ask all, and wait for all."""
    count = len(peers) if asks_all else coverage(len(peers), wanted)
    salts = {peer: str(uuid.uuid4()) for peer in random.sample(list(peers), count)}
    return Gathering(key, question, argument, salts, len(salts) if asks_all else None)


def pauses() -> Iterator[float]:
    """Seconds between two attempts."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s *= 2


def open_socket(peers: Sequence[Peer]) -> socket.socket:
    """A socket for the family of these peers. Raises: Unavailable."""
    family = socket.AF_INET6 if any(":" in peer.host for peer in peers) else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise Unavailable(f"confd cannot be asked: {os.strerror(error.errno or 0).lower()}") from error
    sock.setblocking(False)
    return sock


def send(sock: socket.socket, gathering: Gathering, now: float) -> None:
    """Send the question to those that have not replied. Who cannot be reached now counts as silent."""
    for peer, datagram in gathering.datagrams(now).items():
        try:
            sock.sendto(datagram, (peer.host, peer.port))
        except OSError:
            continue
