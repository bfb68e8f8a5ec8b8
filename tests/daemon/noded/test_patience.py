"""Peers of a node daemon that are slow, silent, or many."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.nodes import HOST, Node
from tests.support.wait import wait_until

# as long as a slow machine needs for its own callers
SHORT = "body_timeout_s = 5.0\nhandshake_timeout_s = 5.0\nmax_clients = 3\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node"), SHORT) as node:
        node.start()
        yield node


def test_a_body_that_does_not_come_is_not_waited_for(node: Node) -> None:
    connection = node.connection()
    connection.putrequest("POST", "/jobqueue_update")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"[")

    reply = connection.getresponse()

    assert (reply.status, reply.getheader("connection")) == (408, "close")
    connection.close()


def test_silent_peers_are_cut_off_and_then_others_are_served(node: Node) -> None:
    silent = [socket.create_connection((HOST, node.port)) for _ in range(3)]

    assert node.call("version", []) == [True, 3_000_000]

    wait_until(lambda: "connections.full" in node.log(), what="the bound was reached")
    for peer in silent:
        peer.close()


def test_a_kept_connection_serves_many_calls_also_after_refusals(node: Node) -> None:
    connection = node.connection()
    addresses = set()
    for method, status in (("POST", 200), ("GET", 400), ("POST", 200), ("PUT", 400), ("POST", 200)):
        connection.request(method, "/version", b"[]" * 1000)
        reply = connection.getresponse()
        reply.read()
        assert reply.status == status
        assert connection.sock is not None
        addresses.add(connection.sock.getsockname())
    connection.close()

    assert len(addresses) == 1


def test_calls_under_way_are_finished_at_a_stop(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        node.start()
        connection, idle = node.connection(), node.connection()
        idle.connect()
        connection.request("POST", "/test_delay", b"[0.5]", {"X-Gantry-Epoch": "1"})
        # stored before the call is carried out
        wait_until(node.paths.epoch_file.exists, what="the call is under way")
        daemon = node.cluster.daemons["noded"]
        daemon.terminate()

        assert connection.getresponse().read() == b"[true, null]\n"
        assert daemon.wait(60) == 0
        connection.close()
        idle.close()


def test_a_connection_that_its_peer_closed_gives_its_place_back(tmp_path: Path) -> None:
    with Node(tmp_path, "max_clients = 2\nidle_timeout_s = 3600.0\n") as node:
        node.start()
        for _ in range(4):
            connection = node.connection()
            connection.request("POST", "/version", b"[]")
            connection.getresponse().read()
            # when this is done, the server waits for the next call on the first connection
            assert node.call("version", []) == [True, 3_000_000]
            connection.close()
        for _ in range(4):
            # hangs up before the reply
            connection = node.connection()
            connection.request("POST", "/test_delay", b"[0.01]")
            connection.close()

        assert node.call("version", []) == [True, 3_000_000]
        assert "Traceback" not in node.log()
