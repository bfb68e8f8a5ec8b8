"""Connections are bounded: idle ones make room, busy ones do not, and others are told so at once."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.nodes import HOST
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web.rapid import Web
from tests.support.web.rawhttp import get, over_socket, over_tls, read_reply

PLACES = 4
MANY = 2000
# nobody is there to reply, so calls of luxid stay under way
SETTINGS = f"max_clients = {PLACES}\nluxid_patience_s = 600\nstop_timeout_s = 0\nhandshake_timeout_s = 600\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web"), SETTINGS) as web:
        web.start("rapid")
        yield web


@pytest.fixture
def web(shared: Web) -> Iterator[Web]:
    """Afterwards no connection is left but the one that asks."""
    yield shared
    wait_until(lambda: figures(shared) == (1, 1, 0, 0), what="nothing is left", state=lambda: figures(shared))


def figures(web: Web) -> tuple[int, int, int, int]:
    with over_tls(web) as sock:
        sock.sendall(get("/3/health"))
        found = read_reply(sock, "GET").json
        return found["connections"], found["requests"], found["waiting"], found["calls"]


def test_the_connection_that_was_idle_for_the_longest_makes_room_for_a_new_one(web: Web) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(over_tls(web)) for _ in range(PLACES)]
        for sock in idle:
            sock.sendall(get("/3"))
            assert read_reply(sock, "GET").status == 200

        new = stack.enter_context(over_tls(web))
        new.sendall(get("/3"))

        assert read_reply(new, "GET").status == 200
        assert is_closed(idle[0])
        idle[1].sendall(get("/3"))
        assert read_reply(idle[1], "GET").status == 200


def test_a_caller_for_whom_busy_ones_leave_no_room_is_told_to_come_again(web: Web) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(PLACES):
            stack.enter_context(over_socket(web)).sendall(get("/2/info"))
        wait_until(lambda: figures(web)[:2] == (1 + PLACES, 1 + PLACES), what="all places are busy")
        late = stack.enter_context(over_socket(web))
        late.sendall(get("/2/info"))

        reply = read_reply(late, "GET")

        assert (reply.status, reply.headers["retry-after"], reply.is_closed) == (503, "1", True)
        assert sorted(reply.json) == ["code", "explain", "message"]


def test_two_thousand_silent_connections_keep_nobody_from_being_served(web: Web) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(socket.create_connection((HOST, web.port), timeout=PATIENCE_S))

        with over_tls(web) as sock:
            sock.sendall(get("/3"))
            assert read_reply(sock, "GET").status == 200

        assert len(os.listdir(f"/proc/{web.pid}/fd")) < 200
    assert "Traceback" not in web.log()


def test_no_more_connections_are_taken_than_there_are_descriptors_for(tmp_path: Path) -> None:
    with Web(tmp_path, descriptors=250) as web:
        web.start("rapid")
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                stack.enter_context(over_socket(web))
            assert figures(web)[0] <= 15 + 1 + 32

        assert "connections.limited max_clients=2000 possible=14 descriptors=250" in web.log()
        assert "accept.failed" not in web.log()


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
