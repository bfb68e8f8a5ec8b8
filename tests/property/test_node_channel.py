"""TLS and HTTP of a call: whatever a node daemon says, in whatever pieces, is a reply or a breakdown (noded.md 2)."""

import ssl
from contextlib import suppress

import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.noded.call import Breakdown, NodeAddress
from protocol.noded.clients.connection import Channel, HttpRequest, NodedHttpReply

NODE = NodeAddress("node1", "192.0.2.1")
AUTHORITY = trustme.CA()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n[true, null]\n"
WORDS = st.sampled_from(
    [
        REPLY,
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 204 Nothing\r\n\r\n",
        b"HTTP/1.1 999999 Much\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: -3\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Connection: close\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"abc",
    ]
)
SAID = st.lists(WORDS | st.binary(max_size=20), max_size=6).map(b"".join)


class _Pair:
    """A channel whose handshake with a node daemon is done."""

    def __init__(self) -> None:
        client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client.check_hostname = False
        AUTHORITY.configure_trust(client)
        _CERTIFICATE.configure_cert(server)
        self._to_server, self._from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = server.wrap_bio(self._to_server, self._from_server, server_side=True)
        self.channel = Channel(client, NODE)
        self.channel.ask(HttpRequest("version", b"[]"))
        self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            while data := self.channel.to_send():
                self._to_server.write(data)
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                return
            self.channel.receive(self._from_server.read())

    def request(self) -> bytes:
        """What the channel has sent, up to now."""
        received = b""
        while data := self.channel.to_send():
            self._to_server.write(data)
        while True:
            try:
                received += self._tls.read()
            except ssl.SSLWantReadError:
                return received

    def records(self) -> int:
        """How many TLS records the channel sends now."""
        sent = b""
        while data := self.channel.to_send():
            sent += data
        self._to_server.write(sent)
        count = 0
        while sent:
            # type, version and length come first, see RFC 8446 section 5.1
            sent = sent[5 + int.from_bytes(sent[3:5]) :]
            count += 1
        return count

    def said(self, plain: bytes) -> bytes:
        """These bytes as they come over the network."""
        if plain:
            self._tls.write(plain)
        return self._from_server.read()


_CERTIFICATE = AUTHORITY.issue_cert("192.0.2.1")


def _outcome(plain: bytes, size: int) -> NodedHttpReply | str:
    """What comes of these bytes, in pieces of this size, and then the end of the connection."""
    pair = _Pair()
    network = pair.said(plain)
    pieces = [network[at : at + size] for at in range(0, len(network), size)]
    try:
        for piece in [*pieces, b""]:
            reply = pair.channel.receive(piece)
            if reply is not None:
                return reply
    except Breakdown as breakdown:
        return breakdown.kind.value
    raise AssertionError("the connection has ended, and nothing came of it")


@given(SAID, st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_whatever_is_said_in_whatever_pieces_comes_to_the_same_end(plain: bytes, size: int) -> None:
    assert _outcome(plain, size) == _outcome(plain, 2**20)


@given(st.binary(min_size=1, max_size=60))
@settings(deadline=None, max_examples=60)
def test_bytes_that_are_not_tls_break_the_call_down(noise: bytes) -> None:
    pair = _Pair()

    try:
        assert pair.channel.receive(noise) is None
        assert pair.channel.receive(b"") is None
    except Breakdown:
        return
    raise AssertionError("the connection has ended, and nothing came of it")


@given(st.binary(max_size=200), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_a_channel_serves_one_request_after_the_other(body: bytes, more: int) -> None:
    pair = _Pair()
    first = pair.request()

    for _ in range(more):
        assert pair.channel.receive(pair.said(REPLY)) == NodedHttpReply(200, "OK", b"[true, null]\n")
        assert pair.channel.is_reusable
        pair.channel.ask(HttpRequest("test_delay", body))
        request = pair.request()
        assert request.startswith(b"POST /test_delay HTTP/1.1\r\n")
        assert request.endswith(b"\r\n\r\n" + body)

    assert first.startswith(b"POST /version HTTP/1.1\r\n")


def test_a_reply_with_bytes_after_its_end_spoils_the_connection() -> None:
    pair = _Pair()

    assert pair.channel.receive(pair.said(REPLY + b"HTTP/1.1 200")) is not None

    assert not pair.channel.is_reusable


@given(st.integers(0, 14_000))
@settings(deadline=None, max_examples=30)
def test_a_small_request_is_one_record(size: int) -> None:
    """Each record wakes the node daemon, and is read by two calls of the kernel."""
    pair = _Pair()
    pair.records()
    pair.channel.receive(pair.said(REPLY))
    pair.channel.ask(HttpRequest("test_delay", b"x" * size, epoch=3))

    assert pair.records() == 1


def test_a_large_body_comes_whole() -> None:
    pair = _Pair()
    pair.request()
    pair.channel.receive(pair.said(REPLY))
    body = bytes(range(256)) * 2048

    pair.channel.ask(HttpRequest("test_delay", body))

    assert pair.request().partition(b"\r\n\r\n")[2] == body
