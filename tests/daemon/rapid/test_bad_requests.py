"""Whatever a client sends: the right status in a form that it can read, nothing stored, no traceback, others served."""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wait import wait_until
from tests.support.web.rapid import Web
from tests.support.web.rawhttp import ask, get, over_socket, over_tls, post, read_reply, send

# for what is to be cut off; a caller that means no harm may stand still for longer
HASTY = "body_timeout_s = 1.0\nidle_timeout_s = 3.0\n"
MIB = 2**20
JOB = b'{"ops": [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]}'


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start()
        yield web


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Web]:
    """One that cuts off soon, without the daemons behind it; afterwards its log has no traceback."""
    with Web(tmp_path, HASTY) as web:
        web.start("rapid")
        yield web
        assert ask(web, get("/3")).status == 200
    assert "Traceback" not in web.log()


@pytest.fixture
def web(shared: Web) -> Iterator[Web]:
    """Afterwards nothing was stored, others are served, and the log has no traceback."""
    yield shared
    wait_until(lambda: shared.local.get("/3/health").json()["ok"], what="luxid is reached")
    assert shared.local.get("/2/jobs").json() == []
    assert shared.local.get("/2/filters").json() == []
    assert list(shared.paths.queue.glob("job-*")) == []
    assert "Traceback" not in shared.log()


NO_REQUESTS = {
    "no request line": (b"NONSENSE\r\n\r\n", 400),
    "bytes": (bytes(range(256)), 400),
    "a handshake of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n", 400),
    "no host": (b"GET /3/health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /3/health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "a header without a colon": (b"GET /3/health HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n", 400),
    "a length that is no number": (b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", 400),
    "two lengths": (b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "a chunk without a size": (
        b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        400,
    ),
    "a coding that nobody knows": (b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "huge headers": (b"GET /3/health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
}


@pytest.mark.parametrize("case", NO_REQUESTS)
def test_what_is_no_request_gets_an_error_that_ganetis_client_can_read(web: Web, case: str) -> None:
    data, status = NO_REQUESTS[case]

    reply = ask(web, data)

    assert (reply.status, reply.headers["content-type"], reply.is_closed) == (status, "application/json", True)
    assert sorted(reply.json) == ["code", "explain", "message"]
    assert reply.json["code"] == status


BAD_BODIES = {
    "no json": (post("/3/jobs", b"{"), 400),
    "json and more": (post("/3/jobs", JOB + b"}"), 400),
    "not a number": (post("/3/jobs", b'{"ops": NaN}'), 400),
    "too deep": (post("/3/jobs", b"[" * 100_000), 400),
    "too deep in an opcode": (
        post("/3/jobs", b'{"jobs":[{"ops":[{"OP_ID":"OP_TEST_DUMMY","result":%b}]}]}' % (b"[" * 500 + b"]" * 500)),
        400,
    ),
    "too deep for ganeti": (post("/2/filters", b'{"predicates":%b}' % (b"[" * 500 + b"]" * 500)), 400),
    "another type": (post("/3/jobs", b"7"), 400),
    "an unknown key": (post("/3/jobs", b'{"opcodes": []}'), 400),
    "no body": (post("/3/jobs", b""), 400),
    "a form": (post("/3/jobs", b"a=b", "application/x-www-form-urlencoded"), 415),
    "a form by the parameter of its type": (
        post("/3/jobs", b"a=b", "application/json; as=application/x-www-form-urlencoded"),
        400,
    ),
    "no type": (post("/3/jobs", JOB, ""), 415),
    "ganeti: no json": (post("/2/jobs", b"{"), 501),
    "ganeti: bad json": (post("/2/filters", b"{"), 400),
    "ganeti: no type": (post("/2/filters", b"{}", ""), 415),
    "a body for a call without": (post("/3/health", JOB, verb="GET"), 400),
    "a body for nothing": (post("/3/nothing", JOB), 404),
    "11 MiB": (post("/3/jobs", b'"' + b"x" * (11 * MIB) + b'"'), 413),
    "11 MiB for ganeti": (post("/2/filters", b'"' + b"x" * (11 * MIB) + b'"'), 413),
    "11 MiB for nobody": (post("/3/nothing", b"x" * (11 * MIB)), 404),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_body_that_cannot_be_used_is_refused_with_the_reason(web: Web, case: str) -> None:
    data, status = BAD_BODIES[case]

    reply = ask(web, data)

    assert reply.status == status, reply.body
    if b" /2/" in data[:30]:
        assert (reply.headers["content-type"], reply.json["code"]) == ("application/json", status)
    else:
        assert (reply.headers["content-type"], reply.json["status"]) == ("application/problem+json", status)


def test_headers_that_do_not_end_are_cut_off(hasty: Web) -> None:
    with over_tls(hasty) as sock:
        sock.sendall(b"GET /3/health HTTP/1.1\r\nHost: x\r\nX-Slow:")

        reply = read_reply(sock)

        assert (reply.status, reply.json["code"], sock.recv(1)) == (408, 408, b"")


def test_a_body_that_does_not_end_is_cut_off(hasty: Web) -> None:
    with over_socket(hasty) as sock:
        sock.sendall(post("/3/jobs", JOB)[:-1])

        reply = read_reply(sock)

        assert (reply.status, reply.json["status"], reply.is_closed) == (408, 408, True)
        assert reply.json["detail"] == "the body was not complete after 1 s"


@pytest.mark.parametrize("path", ["/3/jobs", "/2/filters", "/ui/login"])
def test_an_announced_length_that_nobody_would_read_is_refused_before_the_body_is_there(web: Web, path: str) -> None:
    for connect, statuses in ((over_socket, {413}), (over_tls, {413, 401})):
        with connect(web) as sock:
            sock.sendall(post(path, b"{}").replace(b"Length: 2", b"Length: 1000000000000"))

            # a body that is waited for would be refused with 408
            reply = read_reply(sock)

            assert reply.status in statuses
            assert (reply.is_closed, sock.recv(1)) == (True, b"")


def test_a_body_that_nobody_wants_is_cut_off_too(hasty: Web) -> None:
    with over_tls(hasty) as sock:
        sock.sendall(post("/3/jobs", JOB)[:-1])

        reply = read_reply(sock)

        assert (reply.status, reply.is_closed, sock.recv(1)) == (401, True, b"")


def test_a_body_of_single_bytes_is_read(web: Web) -> None:
    """Each chunk has one byte."""
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"ops": 7' + b" " * 500)
    head = b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    reply = ask(web, head + chunks + b"1\r\n}\r\n0\r\n\r\n")

    assert (reply.status, reply.json["code"]) == (400, "invalid")


def test_a_client_that_closes_its_half_gets_its_reply(web: Web) -> None:
    with over_socket(web) as sock:
        sock.sendall(get("/3"))
        sock.shutdown(socket.SHUT_WR)

        assert read_reply(sock).status == 200
        assert sock.recv(1) == b""


def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on(web: Web) -> None:
    with over_socket(web) as sock:
        head = b"POST /3/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        sock.sendall(head + b"Content-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"{")

        assert read_reply(sock).status == 400


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.0"])
def test_nobody_can_change_the_protocol(web: Web, upgrade: str) -> None:
    headers = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    websocket = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

    reply = ask(web, f"GET /3 HTTP/1.1\r\nHost: x\r\n{headers}{websocket}\r\n".encode())

    assert (reply.status, reply.json["calls"][0]["path"]) == (200, "/3/health")


def test_requests_in_one_piece_are_answered_one_after_the_other(web: Web) -> None:
    with over_socket(web) as sock:
        send(sock, get("/3/nothing") + post("/3/jobs", b"{") + get("/3/nothing"))

        first = sock.recv(65536)
        while first.count(b'"status"') < 3:
            first += sock.recv(65536)

        assert [int(part[:3]) for part in first.split(b"HTTP/1.1 ")[1:]] == [404, 400, 404]


def test_no_damaged_request_breaks_anything(web: Web) -> None:
    """Requests with a few bytes changed, cut out or doubled; the number says which one to look at."""
    whole = [
        post("/3/jobs", JOB),
        get("/3/jobs?limit=3"),
        get("/3/jobs/1/wait?timeout=0"),
        post("/2/filters", b'{"priority": 0, "action": 7}'),
        get("/ui/jobs"),
    ]
    for seed in range(150):
        chance = random.Random(seed)
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            data[place : place + chance.randrange(2)] = chance.randbytes(chance.randrange(3))
        with over_socket(web) as sock:
            send(sock, bytes(data))
            sock.shutdown(socket.SHUT_WR)
            reply = sock.recv(65536)
        assert not reply.startswith(b"HTTP/1.1 5") or b" 501 " in reply[:14], (seed, data, reply)
