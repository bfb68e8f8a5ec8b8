"""Requests that wait: they outlive a restart of luxid, and end when their client goes or the daemon stops."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from common.ids import JobId
from protocol.luxi.jobs import CancelJob
from tests.support.wait import PATIENCE_S, wait_until
from tests.support.web.rapid import Web
from tests.support.web.rawhttp import get, over_socket, over_tls, read_reply

CLIENTS = 40


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with Web(tmp_path_factory.mktemp("web"), "stop_timeout_s = 600\nluxid_patience_s = 60\n") as web:
        web.start()
        yield web


def waiting(web: Web) -> tuple[int, int]:
    found = web.local.get("/3/health").json()
    return found["waiting"], found["calls"]


def ask_to_wait(stack: contextlib.ExitStack, web: Web, job_id: int) -> socket.socket:
    sock = stack.enter_context(over_socket(web))
    sock.sendall(get(f"/3/jobs/{job_id}/wait?until=final&timeout=600"))
    return sock


def test_a_wait_goes_on_while_luxid_is_restarted(web: Web) -> None:
    job_id = web.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 600.0})
    with contextlib.ExitStack() as stack:
        sock = ask_to_wait(stack, web, job_id)
        wait_until(lambda: waiting(web) == (1, 1), what="the request waits", state=lambda: waiting(web))

        web.cluster.restart("luxid")
        web.cluster.luxi(CancelJob(JobId(job_id), True))

        reply = read_reply(sock, "GET")
        assert (reply.status, reply.json["job"]["status"]) == (200, "canceled"), reply.body


def test_clients_that_vanish_leave_nothing_behind(web: Web) -> None:
    job_id = web.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 600.0})
    web.cluster.wait(job_id, status="running")
    waiting(web)
    before = descriptors(web)
    with contextlib.ExitStack() as stack:
        for number in range(CLIENTS):
            sock = ask_to_wait(stack, web, job_id)
            if number % 2:
                # resets the connection when it is closed
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wait_until(lambda: waiting(web) == (CLIENTS, CLIENTS), what="all wait", state=lambda: waiting(web))

    wait_until(lambda: waiting(web) == (0, 0), what="nobody waits", state=lambda: waiting(web))
    wait_until(lambda: descriptors(web) <= before + 32, what="the connections are closed")


def test_a_stop_ends_those_that_wait_at_once(web: Web) -> None:
    job_id = web.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 600.0})
    with contextlib.ExitStack() as stack:
        sock = ask_to_wait(stack, web, job_id)
        idle = stack.enter_context(over_tls(web))
        stream = stack.enter_context(over_socket(web))
        stream.sendall(get("/3/events"))
        wait_until(lambda: waiting(web)[0] == 2, what="the request waits, and the stream runs")

        os.kill(web.pid, signal.SIGTERM)

        reply = read_reply(sock, "GET")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert idle.recv(1) == b""
        while stream.recv(65536):
            pass
    assert web.cluster.daemons.pop("rapid").wait(PATIENCE_S) == 0
    assert not web.paths.rapid_socket.exists()
    assert "Traceback" not in web.log()
    # for the tests after it, whichever they are
    web.start("rapid")


def descriptors(web: Web) -> int:
    return len(os.listdir(f"/proc/{web.pid}/fd"))
