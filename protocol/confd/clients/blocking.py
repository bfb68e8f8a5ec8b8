"""A client of confd for programs without a loop."""

import select
import socket
import time
from collections.abc import Sequence

from protocol.confd.clients.sending import EXPIRE_S, begin, open_socket, pauses, send
from protocol.confd.datagrams import MAX_REPLY_BYTES
from protocol.confd.gathering import Gathering, Outcome, Peer
from protocol.confd.questions import Argument, Question


def ask_confd(
    key: bytes,
    peers: Sequence[Peer],
    question: Question,
    argument: Argument = None,
    *,
    wanted: int | None = None,
    asks_all: bool = False,
    timeout_s: float = EXPIRE_S,
) -> Outcome:
    """Ask some candidates, and return what they replied, as soon as enough of them have.

    Args:
        peers: of one address family.
        wanted: number of peers to ask; None: six.
        asks_all: ask all peers, and wait for all of them.
    Raises: Unavailable: there is no socket.
    """
    gathering = begin(key, peers, question, argument, wanted=wanted, asks_all=asks_all)
    ends_at = time.monotonic() + timeout_s
    with open_socket(peers) as sock:
        for pause_s in pauses():
            send(sock, gathering, time.time())
            until = min(time.monotonic() + pause_s, ends_at)
            _receive(sock, gathering, until)
            if gathering.is_complete or time.monotonic() >= ends_at:
                break
    return gathering.outcome()


def _receive(sock: socket.socket, gathering: Gathering, until: float) -> None:
    while not gathering.is_complete and (left_s := until - time.monotonic()) > 0:
        if not select.select([sock], [], [], left_s)[0]:
            return
        try:
            datagram = sock.recv(MAX_REPLY_BYTES + 1)
        except OSError:
            # such as an ICMP for what was sent
            continue
        gathering.take(datagram)
