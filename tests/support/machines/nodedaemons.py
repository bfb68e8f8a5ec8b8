"""Node daemons of tests: real TLS on loopback, with clusters' certificates made up, and behaviour as a test wants."""

import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import attrs
import h11
import trio
import trustme

from protocol.noded.call import NodeAddress
from protocol.noded.clients.certificates import CertificateFiles

# what a node daemon does with a connection, before or after the handshake
Behaviour = Callable[[trio.abc.Stream], Awaitable[None]]


class MadeUpCluster:
    """The certificates of a cluster, in files: the authority as server.pem, and one signed by it as client.pem."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.files = CertificateFiles(folder / "server.pem", folder / "client.pem")
        self.write(self.authority, self.authority)

    def write(self, trusted: trustme.CA, signer: trustme.CA) -> None:
        """Replace the files: this authority is trusted, and that one has signed our certificate."""
        key = trusted.private_key_pem.bytes() + trusted.cert_pem.bytes()
        self.files.server.write_bytes(key)
        own = signer.issue_cert("127.0.0.1")
        self.files.client.write_bytes(own.private_key_and_cert_chain_pem.bytes())

    def server_context(self, *, trusted: trustme.CA | None = None, expired: bool = False) -> ssl.SSLContext:
        """The context of a node daemon of this cluster. Args: trusted: the authority of its callers, if another."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_REQUIRED
        (trusted or self.authority).configure_trust(context)
        over = datetime(2001, 1, 1, tzinfo=UTC) if expired else None
        before = datetime(2000, 1, 1, tzinfo=UTC) if expired else None
        self.authority.issue_cert("127.0.0.1", not_before=before, not_after=over).configure_cert(context)
        return context


@attrs.define
class Seen:
    """What a node daemon of a test has seen."""

    # connections that were accepted, and those that are open
    connections: int = 0
    connected: int = 0
    most_connected: int = 0
    requests: list[h11.Request] = attrs.field(factory=list)
    bodies: list[bytes] = attrs.field(factory=list)
    # procedures whose caller closed the connection before it had its reply
    given_up: list[str] = attrs.field(factory=list)
    # set whenever something above changes, and replaced
    changed: trio.Event = attrs.field(factory=trio.Event)

    def note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        with trio.fail_after(30):
            while not holds():
                await self.changed.wait()


async def serve(
    nursery: trio.Nursery, behaviour: Behaviour, context: ssl.SSLContext | None, seen: Seen | None = None
) -> NodeAddress:
    """Start a node daemon; without a context it speaks no TLS. The nursery ends it."""
    notes = Seen() if seen is None else seen

    async def accept(tcp: trio.SocketStream) -> None:
        notes.connections += 1
        notes.connected += 1
        notes.most_connected = max(notes.most_connected, notes.connected)
        notes.note()
        stream = tcp if context is None else trio.SSLStream(tcp, context, server_side=True, https_compatible=True)
        try:
            if isinstance(stream, trio.SSLStream):
                await stream.do_handshake()
            await behaviour(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            notes.connected -= 1
            notes.note()
            await trio.aclose_forcefully(stream)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, accept, listeners)
    return NodeAddress("node1", "127.0.0.1", listeners[0].socket.getsockname()[1])


def replying(seen: Seen, body: bytes, *, status: int = 200, most: int | None = None) -> Behaviour:
    """Reply to each request with this body. Args: most: requests after which the connection is closed, as announced."""

    async def behave(stream: trio.abc.Stream) -> None:
        http = h11.Connection(h11.SERVER)
        count = 0
        while True:
            request = await next_event(stream, http)
            if not isinstance(request, h11.Request):
                return
            received = bytearray()
            while isinstance(event := await next_event(stream, http), h11.Data):
                received += event.data
            seen.requests.append(request)
            seen.bodies.append(bytes(received))
            count += 1
            headers = [("Content-Length", str(len(body)))] + ([("Connection", "close")] if count == most else [])
            parts = (h11.Response(status_code=status, headers=headers, reason=b"Told"), h11.Data(data=body))
            data = b"".join(http.send(part) or b"" for part in (*parts, h11.EndOfMessage()))
            await stream.send_all(data)
            seen.note()
            if http.our_state is h11.MUST_CLOSE:
                return
            http.start_next_cycle()

    return behave


async def next_event(stream: trio.abc.Stream, http: h11.Connection) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(bytes(await stream.receive_some()))
    return event


def saying(data: bytes) -> Behaviour:
    """Wait for a request, say this, whatever it is, and close the connection."""

    async def behave(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(data)

    return behave


def strict(context: ssl.SSLContext) -> Behaviour:
    """Shake hands as OpenSSL does by itself: it says why it refuses a certificate, which trio's stream does not."""

    async def behave(stream: trio.abc.Stream) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await stream.send_all(outgoing.read())
                incoming.write(await stream.receive_some())
            except ssl.SSLError:
                await stream.send_all(outgoing.read())
                # as long as the peer talks, closing would reset the connection
                await stream.receive_some()
                return

    return behave


async def hang(stream: trio.abc.Stream) -> None:
    """Take all that comes, and say nothing."""
    while await stream.receive_some():
        pass


async def close(stream: trio.abc.Stream) -> None:
    """Close the connection at once."""


def endless(data: bytes, then: bytes) -> Behaviour:
    """Wait for a request, say this, then the other thing for ever."""

    async def behave(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(data)
        while True:
            await stream.send_all(then)

    return behave
