"""A client of confd for programs without a loop: whom it asks, and how."""

import os
import random
import select
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Final

from common.errors import NotFound, Unavailable
from common.paths import Paths
from protocol.confd.gathering import ConfdPeer, GatheredReplies, Gathering, coverage
from protocol.confd.questions import MAX_REPLY_BYTES, Argument, Question

# What both clients share: the choice of peers, the pauses, and the socket.


# time after which a question is given up; Ganeti's
EXPIRE_S: Final = 10.0
# pause before a question is sent again to those that are silent, as datagrams get lost; the next ones are longer
_FIRST_PAUSE_S: Final = 0.5


def begin(
    key: bytes,
    peers: Sequence[ConfdPeer],
    question: Question,
    argument: Argument,
    *,
    wanted: int | None,
    asks_all: bool,
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


def open_socket(peers: Sequence[ConfdPeer]) -> socket.socket:
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


# A client of confd for programs without a loop.


def ask_confd(
    key: bytes,
    peers: Sequence[ConfdPeer],
    question: Question,
    argument: Argument = None,
    *,
    wanted: int | None = None,
    asks_all: bool = False,
    timeout_s: float = EXPIRE_S,
) -> GatheredReplies:
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


# Whom to ask, and the key: from the files of a node.
#
# Source: confd.md 6.


def candidates(paths: Paths, port: int) -> Sequence[ConfdPeer]:
    """The master candidates that this node knows, the master among them. Raises: NotFound, OSError."""
    path = paths.ssconf_file("master_candidates_ips")
    try:
        hosts = path.read_text("utf-8", "replace").split()
    except FileNotFoundError:
        hosts = []
    if not hosts:
        raise NotFound(f"this node knows no master candidates ('{path}'); write it by: gnt-cluster redist-conf")
    return [ConfdPeer(host, port) for host in hosts]


def read_key(paths: Paths) -> bytes:
    """All bytes of the key, also its last newline. Raises: NotFound, OSError."""
    try:
        return paths.hmac_key.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            f"this node has no key for confd ('{paths.hmac_key}'); 'gantry up' makes it on the master, and "
            "'gnt-cluster redist-conf' sends it to the nodes"
        ) from None
