"""A daemon that was stopped while its mastership ran out says nothing more, though requests wait for it."""

import signal
from typing import Any

import pytest

from common.system.program import NOT_MASTER
from protocol.luxi.queries import QueryJobs
from protocol.messages import Request
from protocol.wconfd.config import ReadConfig
from tests.support.machines.playedpair import Asking, PlayedPair
from tests.support.stopping import stop
from tests.support.wait import PATIENCE_S, wait_until

CALLERS = 40


@pytest.mark.parametrize("daemon", ["luxid", "wconfd"])
def test_who_asked_a_stopped_master_gets_no_answer_of_an_old_one(pair: PlayedPair, daemon: str) -> None:
    pair.begin(pair.first)
    is_luxid = daemon == "luxid"
    socket = pair.first.paths.query_socket if is_luxid else pair.first.paths.wconfd_socket
    request: Request[Any] = QueryJobs(None, ("id",)) if is_luxid else ReadConfig()
    process = pair.first.cluster.daemons[daemon]
    stop(process.pid)
    askings = [Asking(socket, request) for _ in range(CALLERS)]
    wait_until(lambda: all(asking.is_sent for asking in askings), what="all requests wait for it")

    pair.keepers[pair.first.name].pass_deadline()
    process.send_signal(signal.SIGCONT)
    process.wait(PATIENCE_S)

    assert process.returncode == NOT_MASTER
    assert [asking.end() for asking in askings] == [None] * CALLERS
