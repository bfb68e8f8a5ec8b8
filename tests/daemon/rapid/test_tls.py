"""Connections over the network are encrypted, with a certificate that can be replaced under a running daemon."""

import datetime
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.nodes.certificates import fingerprint_of, make_web_certificate, write_certificate
from tests.support.machines.nodes import HOST
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web.rapid import Web

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web")) as web:
        web.start("rapid")
        yield web


@pytest.fixture
def hasty(web: Web) -> Iterator[Web]:
    """The same, with less patience than others may need for a handshake."""
    web.configure("handshake_timeout_s = 0.2\n")
    web.cluster.restart("rapid")
    yield web
    web.configure("")
    web.cluster.restart("rapid")


def shown(web: Web, context: ssl.SSLContext) -> bytes | None:
    """The certificate that rapid shows, as DER."""
    with (
        socket.create_connection((HOST, web.port), timeout=PATIENCE_S) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as secure,
    ):
        return secure.getpeercert(binary_form=True)


def test_a_certificate_is_made_that_a_client_can_check_by_the_name(web: Web) -> None:
    context = web.tls()
    context.check_hostname = True

    der = shown(web, context)

    assert der is not None
    assert fingerprint_of(ssl.DER_cert_to_PEM_cert(der).encode()) == fingerprint_of(web.paths.rapi_pem.read_bytes())
    assert stat.S_IMODE(web.paths.rapi_pem.stat().st_mode) == 0o400


def test_requests_are_served_over_tls(web: Web) -> None:
    assert web.remote().get("/3").json()["calls"]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_an_old_version_of_tls_is_refused_in_one_line_of_the_log(web: Web) -> None:
    context = web.tls()
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    before = len(web.log().splitlines())

    with pytest.raises((ssl.SSLError, ConnectionError)):
        shown(web, context)

    wait_until(lambda: "handshake.failed" in new_lines(web, before), what="the refusal is logged")
    lines = [line for line in web.log().splitlines()[before:] if line.strip()]
    assert len(lines) == 1, lines
    assert "UNSUPPORTED_PROTOCOL" in lines[0]


def test_a_silent_handshake_is_cut_off_in_one_line_of_the_log(hasty: Web) -> None:
    before = len(hasty.log().splitlines())

    with socket.create_connection((HOST, hasty.port), timeout=PATIENCE_S) as raw:
        assert raw.recv(100) == b""

    wait_until(lambda: new_lines(hasty, before), what="it is logged")
    lines = hasty.log().splitlines()[before:]
    assert len(lines) == 1, lines
    assert "not over after 0.2 s" in lines[0]


def test_plain_http_on_the_port_of_tls_is_refused_in_one_line_of_the_log(web: Web) -> None:
    before = len(web.log().splitlines())

    with socket.create_connection((HOST, web.port), timeout=PATIENCE_S) as raw:
        raw.sendall(b"GET /3 HTTP/1.1\r\nHost: x\r\n\r\n")
        while raw.recv(1000):
            pass

    wait_until(lambda: "handshake.failed" in new_lines(web, before), what="the refusal is logged")
    assert len(web.log().splitlines()[before:]) == 1


def test_a_new_certificate_is_used_at_once_and_an_unusable_one_is_not(web: Web) -> None:
    told = web.log().count("certificate.unusable")
    write_certificate(web.paths.rapi_pem, make_web_certificate(["new.test"], NOW))
    good = web.paths.rapi_pem.read_bytes()

    first = web.remote()
    assert first.get("/3").status_code == 200
    context = web.tls()
    write_certificate(web.paths.rapi_pem, b"no certificate")

    assert fingerprint_of(ssl.DER_cert_to_PEM_cert(shown(web, context) or b"").encode()) == fingerprint_of(good)
    shown(web, context)
    # a connection from before goes on, and the fault is told once
    assert first.get("/3").status_code == 200
    assert web.log().count("certificate.unusable") == told + 1
    # for the tests after it, whichever they are: the log tells here that it is used
    write_certificate(web.paths.rapi_pem, good)
    shown(web, context)


def test_without_encryption_by_an_option_no_certificate_is_made(tmp_path: Path) -> None:
    with Web(tmp_path) as web:
        web.cluster.options["rapid"] = ("--no-ssl", "-b", "127.0.0.2")
        web.start("rapid")

        with socket.create_connection(("127.0.0.2", web.port), timeout=PATIENCE_S) as raw:
            raw.sendall(b"GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
        assert not web.paths.rapi_pem.exists()


def new_lines(web: Web, before: int) -> str:
    return "\n".join(web.log().splitlines()[before:])
