"""Both clients of node daemons against real TLS servers that reply, fail and lie (noded.md 2 to 4)."""

import errno
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from protocol.noded.call import (
    MAX_REQUEST,
    Content,
    Failed,
    FailureKind,
    NodeAddress,
    NodeCall,
    Outcome,
    Replied,
    Skipped,
)
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.client import NodeClient
from protocol.noded.commands import TestDelay
from protocol.noded.membership import NodeVersion
from protocol.noded.statefiles import JobqueueUpdate
from tests.support.machines.nodedaemons import (
    Behaviour,
    MadeUpCluster,
    Seen,
    close,
    endless,
    hang,
    replying,
    saying,
    serve,
    strict,
)

pytestmark = pytest.mark.trio

Ask = Callable[..., Awaitable[Mapping[str, Outcome[Any]]]]
VERSION = b"[true, 3000000]\n"
HTML = b"<html><body>Unknown method</body></html>"


@pytest.fixture
def cluster(tmp_path: Path) -> MadeUpCluster:
    return MadeUpCluster(tmp_path)


async def _by_trio(files: CertificateFiles, nodes: list[NodeAddress], call: NodeCall[Any], **options: Any) -> Any:
    async with NodeClient(files, epoch=lambda: 7) as client:
        return await client.call_nodes(nodes, call, **options)


async def _by_blocking(files: CertificateFiles, nodes: list[NodeAddress], call: NodeCall[Any], **options: Any) -> Any:
    client = BlockingNodeClient(files, epoch=7)
    return await trio.to_thread.run_sync(partial(client.call_nodes, nodes, call, **options))


@pytest.fixture(params=[_by_trio, _by_blocking], ids=["trio", "blocking"])
def ask(request: pytest.FixtureRequest, cluster: MadeUpCluster) -> Ask:
    return partial(request.param, cluster.files)


async def test_a_call_is_a_post_with_a_json_list_and_its_reply_is_typed(
    ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)

    outcomes = await ask([node], NodeVersion())

    assert outcomes == {"node1": Replied(3000000)}
    [request] = seen.requests
    headers = dict(request.headers)
    assert (request.method, request.target, seen.bodies) == (b"POST", b"/version", [b"[]"])
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == b"2"
    assert headers[b"x-gantry-epoch"] == b"7"
    assert b"expect" not in headers


async def test_a_request_larger_than_the_networks_buffers_arrives_whole(
    ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, b"[true, null]\n"), cluster.server_context(), seen)
    # incompressible
    data = random.Random(1).randbytes(5 * 2**20)

    outcomes = await ask([node], JobqueueUpdate("/queue/job-1", Content(data)))

    assert outcomes == {"node1": Replied(None)}
    assert len(seen.bodies[0]) > len(data)


BAD: list[tuple[str, Behaviour, FailureKind, str]] = [
    ("broken-off", close, FailureKind.LOST, "closed the connection before its reply was whole"),
    (
        "half-a-reply",
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[true, "),
        FailureKind.LOST,
        "before its reply",
    ),
    ("half-a-head", saying(b"HTTP/1.1 200 OK\r\nConte"), FailureKind.LOST, "before its reply was whole"),
    ("no-http", saying(b"\x00\x01garbage\r\n\r\n"), FailureKind.GARBLED, "does not speak HTTP"),
    ("endless-head", endless(b"HTTP/1.1 200 OK\r\n", b"x" * 1000), FailureKind.GARBLED, "does not speak HTTP"),
    (
        "endless-body",
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + bytes(10000) + b"\r\n"),
        FailureKind.GARBLED,
        "sends a reply of more than 100000 bytes, the limit",
    ),
    ("no-json", replying(Seen(), HTML), FailureKind.GARBLED, "the reply is not JSON"),
    ("no-pair", replying(Seen(), b"[true]"), FailureKind.GARBLED, "the reply is not [success, payload]"),
    ("other-payload", replying(Seen(), b'[true, "x"]'), FailureKind.GARBLED, "expected int, got 'x'"),
    ("refusal", replying(Seen(), b'[false, "locked"]'), FailureKind.REFUSED, "refused version: locked"),
    ("no-reason", replying(Seen(), b'[false, ""]'), FailureKind.REFUSED, "gave no reason"),
    (
        "no-candidate",
        replying(Seen(), HTML, status=403),
        FailureKind.REFUSED,
        "not that of a master candidate (HTTP 403)",
    ),
    ("unknown", replying(Seen(), HTML, status=404), FailureKind.UNKNOWN, "does not know this procedure (HTTP 404)"),
    ("crashed", replying(Seen(), HTML, status=500), FailureKind.REFUSED, "refused version: HTTP 500 Told"),
]


@pytest.mark.parametrize(("behaviour", "kind", "said"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
async def test_a_node_that_misbehaves_fails_alone_with_its_text(
    behaviour: Behaviour,
    kind: FailureKind,
    said: str,
    ask: Ask,
    cluster: MadeUpCluster,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("protocol.noded.clients.connection.MAX_REPLY", 100_000)
    bad = await serve(nursery, behaviour, cluster.server_context())
    good = await serve(nursery, replying(Seen(), VERSION), cluster.server_context())
    bad, good = NodeAddress("bad", bad.ip, bad.port), NodeAddress("good", good.ip, good.port)

    outcomes = await ask([bad, good], NodeVersion())

    assert list(outcomes) == ["bad", "good"]
    assert outcomes["good"] == Replied(3000000)
    failed = outcomes["bad"]
    assert isinstance(failed, Failed)
    assert failed.kind is kind
    assert said in failed.text
    assert f"node 'bad' at {bad.place}" in failed.text


async def test_a_node_without_tls_is_not_reached(ask: Ask, nursery: trio.Nursery) -> None:
    # closing without reading resets the connection
    for behaviour, said in ((saying(b"HTTP/1.1 400 Bad\r\n\r\n"), "no TLS with node"), (close, "node 'node1'")):
        node = await serve(nursery, behaviour, None)

        failed = (await ask([node], NodeVersion()))["node1"]

        assert isinstance(failed, Failed)
        assert failed.kind is FailureKind.UNREACHABLE
        assert said in failed.text
        assert not failed.kind.may_have_acted


async def test_a_closed_port_is_not_reached(ask: Ask) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        node = NodeAddress("node1", *unused.getsockname())

        failed = (await ask([node], NodeVersion()))["node1"]

    assert failed == Failed(FailureKind.UNREACHABLE, f"node 'node1' at {node.place} is not reached: connection refused")


@pytest.mark.parametrize("case", ["stranger", "expired", "refuses-ours"])
async def test_certificates_that_do_not_fit_are_told_from_silence(
    case: str, ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery, tmp_path: Path
) -> None:
    if case == "stranger":
        (tmp_path / "other").mkdir()
        context, said = MadeUpCluster(tmp_path / "other").server_context(), "is not this cluster's"
    elif case == "expired":
        context, said = cluster.server_context(expired=True), "certificate has expired"
    else:
        context, said = cluster.server_context(trusted=trustme.CA()), "does not accept the certificate of this node"
    node = await serve(nursery, strict(context), None)

    failed = (await ask([node], NodeVersion()))["node1"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.UNTRUSTED
    assert said in failed.text


async def test_a_node_that_ends_without_a_word_after_the_handshake_may_refuse_our_certificate(
    ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    node = await serve(nursery, replying(Seen(), VERSION), cluster.server_context(trusted=trustme.CA()))

    failed = (await ask([node], NodeVersion()))["node1"]

    assert isinstance(failed, Failed)
    assert failed.text.endswith("perhaps it does not accept the certificate of this node")


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_reply_that_comes_before_the_whole_request_is_read(
    hangs_up: bool, ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    early = saying(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async def behave(stream: trio.abc.Stream) -> None:
        await early(stream)
        # takes nothing more in any case; hanging up resets the connection
        if not hangs_up:
            await trio.sleep_forever()

    node = await serve(nursery, behave, cluster.server_context())
    data = random.Random(1).randbytes(5 * 2**20)

    failed = (await ask([node], JobqueueUpdate("/queue/job-1", Content(data))))["node1"]

    assert isinstance(failed, Failed)
    assert "the request is too large for it (HTTP 413)" in failed.text


async def test_a_request_beyond_the_limit_is_not_sent(ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    data = random.Random(1).randbytes(MAX_REQUEST)

    failed = (await ask([node], JobqueueUpdate("/queue/job-1", Content(data))))["node1"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.UNSENT
    assert f"at most {MAX_REQUEST} are possible" in failed.text
    assert seen.connections == 0


async def test_an_offline_node_is_skipped_unless_the_call_asks_all(
    ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    offline = NodeAddress("node1", node.ip, node.port, offline=True)

    assert await ask([offline], TestDelay(0.0)) == {"node1": Skipped()}
    assert seen.connections == 0
    assert await ask([offline], NodeVersion()) == {"node1": Replied(3000000)}


async def test_missing_certificates_fail_each_node_and_send_nothing(
    ask: Ask, cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    seen = Seen()
    node = await serve(nursery, replying(seen, VERSION), cluster.server_context(), seen)
    cluster.files.server.unlink()

    failed = (await ask([node], NodeVersion()))["node1"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.UNSENT
    assert str(cluster.files.server) in failed.text
    assert seen.connections == 0


async def test_a_lack_of_descriptors_here_says_nothing_about_the_node(
    ask: Ask, cluster: MadeUpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_socket(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("protocol.noded.clients.connection.socket.socket", no_socket)

    failed = (await ask([NodeAddress("node1", "127.0.0.1", 1)], NodeVersion()))["node1"]

    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.UNSENT
    assert "too many open files" in failed.text
    assert not failed.kind.is_silence


async def test_a_name_instead_of_an_address_is_not_looked_up(ask: Ask) -> None:
    failed = (await ask([NodeAddress("node1", "localhost")], NodeVersion()))["node1"]

    assert failed == Failed(
        FailureKind.UNSENT, "node 'node1' at localhost:1811 was not asked: its address is not an IP address"
    )


@pytest.mark.parametrize("shown", ["server.pem", "client.pem"])
@pytest.mark.parametrize("ours", ["client.pem", "missing.pem"])
async def test_certificates_like_ganetis_are_taken(ask: Ask, nursery: trio.Nursery, shown: str, ours: str) -> None:
    folder = Path(__file__).parents[2] / "data" / "noded" / "rsa"
    server = folder / "server.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(server)
    context.load_cert_chain(folder / shown)
    node = await serve(nursery, replying(Seen(), VERSION), context)
    files = CertificateFiles(server, folder / ours)
    assert isinstance(ask, partial)

    assert await ask.func(files, [node], NodeVersion()) == {"node1": Replied(3000000)}


class _Clock:
    """A clock of a thread that a test sets forward."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_blocking_call_to_a_node_that_hangs_ends_with_its_limit(
    cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    clock = _Clock()

    async def drip(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        # the end of the limit comes before the byte that wakes the caller
        clock.now += 65.0
        await stream.send_all(b"H")
        await hang(stream)

    node = await serve(nursery, drip, cluster.server_context())
    client = BlockingNodeClient(cluster.files, clock=clock)

    outcomes = await trio.to_thread.run_sync(client.call_nodes, [node], TestDelay(60.0))
    again = await trio.to_thread.run_sync(client.call_nodes, [node], TestDelay(60.0))

    assert outcomes == {"node1": Failed(FailureKind.TIMEOUT, f"{node} gave no reply to test_delay within 65 s")}
    failed = again["node1"]
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.PAUSED


async def test_a_blocking_call_waits_for_a_connection_no_longer_than_its_limit(
    cluster: MadeUpCluster, nursery: trio.Nursery
) -> None:
    clock = _Clock()

    async def shake_no_hands(stream: trio.abc.Stream) -> None:
        # the connection is begun in time, however slow the caller is
        clock.now += 1.0
        await hang(stream)

    node = await serve(nursery, shake_no_hands, None)
    client = BlockingNodeClient(cluster.files, clock=clock)

    outcomes = await trio.to_thread.run_sync(client.call_nodes, [node], NodeVersion(), 0.2)

    assert outcomes == {"node1": Failed(FailureKind.UNREACHABLE, f"{node} is not reached within 0.2 s")}
