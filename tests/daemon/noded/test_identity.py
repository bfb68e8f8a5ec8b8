"""The certificates that a node daemon shows and takes (noded.md 3)."""

import http.client
from pathlib import Path

import pytest

from common.nodes.certificates import make_cluster_certificate, make_node_certificate, write_certificate
from tests.support.machines.nodes import HOST, NOW, Node

RSA = Path(__file__).parents[2] / "data" / "noded" / "rsa"


def test_certificates_of_a_ganeti_open_the_door_in_both_directions(tmp_path: Path) -> None:
    client = (RSA / "client.pem").read_bytes()
    with Node(tmp_path, server_pem=(RSA / "server.pem").read_bytes()) as node:
        node.set_candidates(client)
        node.start()

        assert node.call("version", [], pem=client) == [True, 3_000_000]
        assert node.send("version", b"[]")[0] == 403


def test_a_renewed_certificate_of_the_cluster_is_used_without_a_restart(own: Node) -> None:
    server = make_cluster_certificate(NOW)
    client = make_node_certificate(server, "node2.test", NOW)
    assert own.call("version", []) == [True, 3_000_000]

    write_certificate(own.paths.server_pem, server)
    own.set_candidates(client)

    assert own.call("version", [], pem=client) == [True, 3_000_000]


def test_a_damaged_certificate_is_told_and_the_old_one_stays(own: Node) -> None:
    context = own.context(own.client_pem)
    own.paths.server_pem.unlink()
    own.paths.server_pem.write_bytes(b"damaged")

    connection = http.client.HTTPSConnection(HOST, own.port, context=context, timeout=60)
    connection.request("POST", "/version", b"[]")

    assert connection.getresponse().read() == b"[true, 3000000]\n"
    assert "certificate.unusable" in own.log()
    connection.close()


def test_a_node_without_a_certificate_does_not_start_and_says_why(idle: Node) -> None:
    idle.paths.server_pem.unlink()

    with pytest.raises(AssertionError, match="there is no certificate of the cluster"):
        idle.start()
