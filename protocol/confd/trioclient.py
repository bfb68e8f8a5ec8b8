"""A client of confd on trio."""

import socket
import time
from collections.abc import Sequence

import trio

from protocol.confd.client import EXPIRE_S, begin, open_socket, pauses, send
from protocol.confd.gathering import ConfdPeer, GatheredReplies, Gathering
from protocol.confd.questions import MAX_REPLY_BYTES, Argument, Question


async def ask_confd(
    key: bytes,
    peers: Sequence[ConfdPeer],
    question: Question,
    argument: Argument = None,
    *,
    wanted: int | None = None,
    asks_all: bool = False,
    timeout_s: float = EXPIRE_S,
) -> GatheredReplies:
    """As that of `blocking`."""
    gathering = begin(key, peers, question, argument, wanted=wanted, asks_all=asks_all)
    with open_socket(peers) as sock, trio.move_on_after(timeout_s):
        for pause_s in pauses():
            send(sock, gathering, time.time())
            with trio.move_on_after(pause_s):
                await _receive(sock, gathering)
            if gathering.is_complete:
                break
    return gathering.outcome()


async def _receive(sock: socket.socket, gathering: Gathering) -> None:
    while not gathering.is_complete:
        await trio.lowlevel.wait_readable(sock)
        try:
            datagram = sock.recv(MAX_REPLY_BYTES + 1)
        except OSError:
            # such as an ICMP for what was sent
            continue
        gathering.take(datagram)
