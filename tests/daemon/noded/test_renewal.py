"""Certificates that the master renews on a node, by calls of ours (DESIGN 13)."""

import ssl
from typing import Any

from common.nodes.certificates import (
    certificates_in,
    digest_of,
    make_cluster_certificate,
    make_node_certificate,
    public_digest_of,
    sign_request,
)
from tests.support.machines.nodes import NAME, NOW, Node


def _requested(node: Node) -> str:
    is_done, request = node.call("gantry_request_certificate", [])
    assert is_done
    return str(request)


def _signed(server_pem: bytes, request: str) -> str:
    return sign_request(server_pem, request.encode(), NAME, NOW).decode()


def test_a_node_makes_its_key_itself_and_uses_it_when_the_cluster_has_signed_it(own: Node) -> None:
    before = own.paths.client_pem.read_bytes()
    request = _requested(own)
    assert public_digest_of(_requested(own).encode()) == public_digest_of(request.encode())
    assert own.paths.client_pem.read_bytes() == before

    certificate = _signed(own.server_pem, request)
    assert own.call("gantry_install_certificate", [certificate]) == [True, None]
    assert own.call("gantry_install_certificate", [certificate]) == [True, None]

    assert digest_of(own.paths.client_pem.read_bytes()) == digest_of(certificate.encode())
    assert not own.paths.next_key.exists()


def test_a_certificate_of_another_key_or_of_another_cluster_is_refused(own: Node) -> None:
    before = own.paths.client_pem.read_bytes()
    request = _requested(own)
    foreign = _signed(make_cluster_certificate(NOW), request)
    other = make_node_certificate(own.server_pem, NAME, NOW).decode()

    for certificate, words in ((foreign, "signed by no certificate"), (other, "no key for that"), ("x", "")):
        is_done, text = own.call("gantry_install_certificate", [certificate])
        assert not is_done
        assert words in text

    assert own.paths.client_pem.read_bytes() == before


def test_what_is_no_certificate_of_a_cluster_is_refused_and_the_old_one_stays(own: Node) -> None:
    other = make_cluster_certificate(NOW)
    mixed = other.partition(b"-----BEGIN CERTIFICATE")[0] + certificates_in(own.server_pem)[0]

    for content in ("", "x", mixed.decode()):
        is_done, text = own.call("gantry_put_cluster_certificate", [content])
        assert not is_done
        assert "no certificate of a cluster" in text

    assert own.paths.server_pem.read_bytes() == own.server_pem


def test_a_node_without_the_key_of_the_cluster_shows_its_own_certificate(own: Node) -> None:
    plain = certificates_in(own.server_pem)[0].decode()

    assert own.call("gantry_put_cluster_certificate", [plain]) == [True, None]

    assert b"PRIVATE" not in own.paths.server_pem.read_bytes()
    assert own.call("version", []) == [True, 3_000_000]
    assert _shown(own) == certificates_in(own.client_pem)[0]
    is_done, text = own.call("node_crypto_tokens", [[["ssl_digest", "create", None]]])
    assert not is_done
    assert "gnt-cluster renew-crypto" in text
    assert own.call("gantry_put_cluster_certificate", [own.server_pem.decode()]) == [True, None]
    assert _shown(own) == certificates_in(own.server_pem)[0]


def _shown(node: Node) -> bytes:
    """The certificate that the node daemon shows."""
    connection: Any = node.connection()
    connection.connect()
    try:
        return ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(binary_form=True)).encode()
    finally:
        connection.close()


def test_callers_with_the_old_certificate_and_with_the_new_one_are_heard_while_both_are_trusted(own: Node) -> None:
    new = make_cluster_certificate(NOW, mark="new")
    own.set_candidates(own.client_pem, client := make_node_certificate(new, NAME, NOW))

    assert own.call("gantry_put_cluster_certificate", [own.server_pem.decode() + certificates_in(new)[0].decode()])[0]

    assert own.call("version", []) == [True, 3_000_000]
    assert own.call("version", [], pem=client) == [True, 3_000_000]
