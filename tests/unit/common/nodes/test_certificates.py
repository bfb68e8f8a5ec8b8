"""Certificates are made, signed, read and compared; those of a Ganeti are taken as they are (noded.md 3)."""

import datetime
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import DamagedFile, InvalidRequest
from common.nodes.certificates import (
    digest_of,
    is_signed_by,
    make_cluster_certificate,
    make_node_certificate,
    make_request,
    read_certificate,
    sign_request,
    write_certificate,
)

# key, then certificate, both RSA and of version 1, made by openssl as Ganeti has them made
RSA = Path(__file__).parents[3] / "data" / "noded" / "rsa"
NOW = datetime.datetime(2026, 11, 22, 8, 0, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def server() -> bytes:
    return make_cluster_certificate(NOW)


def test_a_cluster_signs_the_certificates_of_its_nodes(server: bytes) -> None:
    node = make_node_certificate(server, "node1.test", NOW)
    found = read_certificate(node)

    assert (found.name, found.serial) == ("node1.test", int(NOW.timestamp()))
    assert is_signed_by(node, server)
    assert is_signed_by(server, server)
    assert not is_signed_by(node, make_cluster_certificate(NOW))
    assert node.startswith(b"-----BEGIN PRIVATE KEY-----")


def test_a_certificate_holds_for_five_years_and_for_clocks_that_are_behind(server: bytes) -> None:
    found = read_certificate(server)

    assert (found.name, found.serial) == ("ganeti.example.com", 1)
    assert found.is_valid_at(NOW - datetime.timedelta(hours=1))
    assert found.is_valid_at(NOW + datetime.timedelta(days=5 * 364))
    assert not found.is_valid_at(NOW + datetime.timedelta(days=5 * 366))


def test_the_digest_is_the_one_that_openssl_shows() -> None:
    digest = "A4:D5:57:8A:88:AC:8A:0D:40:71:35:14:01:54:01:D7:EC:40:A8:65"

    assert digest_of((RSA / "client.pem").read_bytes()) == digest
    assert read_certificate((RSA / "client.pem").read_bytes()).digest == digest


def test_certificates_of_a_ganeti_are_read_and_its_key_signs_new_ones() -> None:
    server, client = (RSA / "server.pem").read_bytes(), (RSA / "client.pem").read_bytes()
    found = read_certificate(client)
    new = make_node_certificate(server, "node9.test", NOW)

    assert (found.name, found.serial) == ("node1.example.com", 1795182400)
    assert is_signed_by(client, server)
    assert is_signed_by(new, server)


def test_a_name_that_is_too_long_for_a_certificate_is_cut(server: bytes) -> None:
    assert read_certificate(make_node_certificate(server, "n" * 255, NOW)).name == "n" * 64


def test_a_request_is_signed_under_the_name_that_the_cluster_gives(server: bytes) -> None:
    asked = make_request("some-other-node")
    signed = sign_request(server, asked.request, "node2.test", NOW)

    assert read_certificate(signed).name == "node2.test"
    assert is_signed_by(signed, server)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"])
def test_damaged_content_is_refused(content: bytes, server: bytes) -> None:
    with pytest.raises(DamagedFile):
        digest_of(content)
    with pytest.raises(DamagedFile):
        read_certificate(content)
    with pytest.raises(DamagedFile):
        make_node_certificate(content, "node1.test", NOW)
    with pytest.raises(InvalidRequest):
        sign_request(server, content, "node1.test", NOW)


def test_a_file_of_a_key_is_readable_for_its_owner_and_group_alone(server: bytes, tmp_path: Path) -> None:
    write_certificate(tmp_path / "server.pem", server)

    assert (tmp_path / "server.pem").read_bytes() == server
    assert stat.S_IMODE((tmp_path / "server.pem").stat().st_mode) == 0o400


def test_only_making_and_reading_certificates_costs_their_library() -> None:
    modules = "common.nodes.certificates, protocol.noded.procedures"
    code = f"import sys, {modules}; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
