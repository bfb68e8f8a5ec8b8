"""Callers and requests that are refused, with nothing written (noded.md 2 and 3)."""

import datetime
import http
import json
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme

from common.nodes.certificates import make_cluster_certificate, make_node_certificate
from tests.support.machines.nodes import HOST, NOW, Node

MiB = 2**20


def state(node: Node) -> Mapping[Path, bytes]:
    """All files of the node that callers might change."""
    files = [path for path in node.paths.data.rglob("*") if path.is_file() and path != node.paths.queue_lock]
    return {path: path.read_bytes() for path in files}


def update(node: Node, name: str, content: str = "x") -> bytes:
    return json.dumps([name, [0, content]]).encode()


def refused_at_the_door(node: Node, pem: bytes | None) -> bool:
    """Whether a caller with this certificate gets no reply at all."""
    with socket.create_connection((HOST, node.port), timeout=60) as raw:
        try:
            with node.context(pem).wrap_socket(raw) as secure:
                secure.sendall(b"POST /version HTTP/1.1\r\nHost: n\r\nContent-Length: 2\r\n\r\n[]")
                return secure.recv(100) == b""
        except (ssl.SSLError, ConnectionError):
            return True


def test_a_caller_whom_the_cluster_did_not_sign_gets_no_reply(node: Node) -> None:
    stranger = trustme.CA().issue_cert("node2.test")
    foreign = stranger.private_key_and_cert_chain_pem.bytes()
    other_cluster = make_node_certificate(make_cluster_certificate(NOW), "node2.test", NOW)
    expired = make_node_certificate(node.server_pem, "node2.test", NOW - datetime.timedelta(days=3650))
    node.set_candidates(node.client_pem, foreign, other_cluster, expired)

    assert not refused_at_the_door(node, node.client_pem)
    for pem in (None, foreign, other_cluster, expired):
        assert refused_at_the_door(node, pem)


def test_a_node_that_is_no_candidate_may_not_call(node: Node) -> None:
    plain = make_node_certificate(node.server_pem, "node3.test", NOW)
    before = state(node)

    for pem in (plain, node.server_pem):
        status, body = node.send("jobqueue_update", update(node, node.job_name(1)), pem=pem)
        assert (status, body[:6]) == (403, b"<html>")

    assert state(node) == before
    node.set_candidates(plain)
    assert node.call("version", [], pem=plain) == [True, 3_000_000]
    assert node.send("version", b"[]")[0] == 403


@pytest.mark.parametrize("has_file", [True, False])
def test_a_new_node_obeys_only_the_holder_of_the_clusters_certificate(node: Node, has_file: bool) -> None:
    node.set_candidates()
    if not has_file:
        node.paths.ssconf_file("master_candidates_certs").unlink()

    assert node.send("version", b"[]")[0] == 403
    assert node.call("version", [], pem=node.server_pem) == [True, 3_000_000]


def test_candidates_that_cannot_be_read_are_no_verdict(node: Node) -> None:
    file = node.paths.ssconf_file("master_candidates_certs")
    file.unlink()
    file.mkdir()
    before = state(node)

    for pem in (node.client_pem, node.server_pem):
        is_done, text = node.call("jobqueue_update", [node.job_name(1), [0, "x"]], pem=pem)
        assert not is_done
        assert "cannot be told" in text
    assert state(node) == before
    file.rmdir()
    node.set_candidates(node.client_pem)
    assert node.call("version", []) == [True, 3_000_000]


def test_only_posts_are_calls(node: Node) -> None:
    for method in ("GET", "PUT", "DELETE"):
        status, body = node.send("version", b"", method=method)
        assert (status, body[:6]) == (400, b"<html>")


@pytest.mark.parametrize("body", [b"", b"{", b"[1", b'"x"', b"[]", b"[1, 2, 3, 4]", b"\xff\xfe", b'["a", [7, "x"]]'])
def test_garbage_fails_and_changes_nothing(node: Node, body: bytes) -> None:
    before = state(node)

    status, reply = node.send("jobqueue_update", body)

    assert status == 200
    assert json.loads(reply)[0] is False
    assert state(node) == before


def test_a_body_beyond_the_limit_is_refused(node: Node) -> None:
    before = state(node)
    largest = update(node, node.job_name(1), "x" * (10 * MiB - 200))
    too_large = update(node, node.job_name(2), "x" * (11 * MiB))

    assert node.send("jobqueue_update", too_large)[0] == 413
    assert state(node) == before
    assert node.send("jobqueue_update", largest) == (200, b"[true, null]\n")


def test_a_stream_without_an_end_is_cut_off(node: Node) -> None:
    connection = node.connection()
    connection.putrequest("POST", "/jobqueue_update")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    chunk = b"100000\r\n" + bytes(MiB) + b"\r\n"

    with pytest.raises((ConnectionError, ssl.SSLError)):  # noqa: PT012  # the write that fails is not known
        for _ in range(1000):
            connection.send(chunk)
    connection.close()
    assert node.call("version", []) == [True, 3_000_000]


@pytest.mark.parametrize(
    "tail",
    [
        "lib/queue/../config.data",
        "lib/queue/archive/../job-1",
        "lib/queue//job-1",
        "lib/queue/job-1/",
        "lib/queue/job-01x",
        "lib/queue/job-",
        "lib/queue/job-1\0",
        "lib/queue/job-\u0661",
        "lib/queue/version",
        "lib/queue/lock",
        "lib/queue/drain",
        "lib/queue/archive/job-1/x",
        "lib/queue",
        "lib/queue-damaged/job-1",
        "lib/config.data",
        "etc/passwd",
    ],
)
def test_names_that_are_not_of_the_queue_are_refused(node: Node, tail: str) -> None:
    before = state(node)
    bad, good = f"/###-VIRTUAL-PATH-###,/{tail}", node.job_name(1)

    assert not node.call("jobqueue_update", [bad, [0, "x"]])[0]
    assert not node.call("jobqueue_rename", [[[bad, good]]])[0]
    assert not node.call("jobqueue_rename", [[[node.name(node.paths.serial_file), bad]]])[0]
    assert state(node) == before


@pytest.mark.parametrize(
    "tail", ["server.pem", "client.pem", "ssconf_master_node", "queue/job-1", "epoch", "../x", "x"]
)
def test_files_outside_the_closed_list_are_not_uploaded(node: Node, tail: str) -> None:
    before = state(node)
    name = f"/###-VIRTUAL-PATH-###,/lib/{tail}"

    assert not node.call("upload_file_single", [name, [0, "x"], None, "root", "root", None, None])[0]
    assert state(node) == before


def test_a_private_installation_leaves_the_machines_files_alone(node: Node) -> None:
    before = Path("/etc/hosts").read_bytes()

    for name in ("/etc/hosts", str(node.paths.config_data), "/etc/passwd"):
        is_done, _ = node.call("upload_file_single", [name, [0, "x"], None, "root", "root", None, None])
        assert not is_done
    assert Path("/etc/hosts").read_bytes() == before


def test_a_folder_that_is_a_link_is_not_followed(own: Node, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    own.paths.archive.rmdir()
    own.paths.archive.symlink_to(outside)

    for number in ("", "0/"):
        name = f"/###-VIRTUAL-PATH-###,/lib/queue/archive/{number}job-1"
        assert not own.call("jobqueue_update", [name, [0, "x"]])[0]
        assert not own.call("jobqueue_rename", [[[own.name(own.paths.serial_file), name]]])[0]
    assert os.listdir(outside) == []


def test_strange_owners_and_half_of_the_times_are_refused(node: Node) -> None:
    name, before = node.name(node.paths.config_data), state(node)

    for rest in (["nobody", "root", None, None], ["root", "sudo", None, None], ["root", "root", 1.0, None]):
        assert not node.call("upload_file_single", [name, [0, "x"], 0o600, *rest])[0]
    assert state(node) == before


def test_no_web_socket_is_opened(node: Node) -> None:
    connection = node.connection()
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    connection.request("GET", "/version", headers=headers)

    reply = connection.getresponse()
    # the request is one of HTTP like others: procedures are called by POST
    assert (reply.status, reply.getheader("Upgrade")) == (http.HTTPStatus.BAD_REQUEST, None)
    connection.close()
    assert node.call("version", []) == [True, 3_000_000]
