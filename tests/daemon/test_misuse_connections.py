"""Callers that stop in the middle, come all at once, or never read do not harm others (DESIGN section 4)."""

import contextlib
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from protocol.framing import ETX
from protocol.luxi.history import ReadHistory
from tests.support.checked import assert_all_is_free, checked_cluster
from tests.support.cluster import Cluster
from tests.support.sockets.connections import connection_count
from tests.support.sockets.rawsocket import RawCaller
from tests.support.wait import wait_until

CALLERS = 500
# a call that each daemon handles, and its reply
HELLO: dict[str, tuple[str, list[Any]]] = {
    "luxid": ("QueryJobs", [[], ["id"]]),
    "wconfd": ("echo", ["hello"]),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with checked_cluster(tmp_path_factory.mktemp("misuse") / "root") as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        # what they keep open among themselves must be there before anything is counted
        wait_until(
            lambda: connection_count(cluster.daemons["wconfd"].pid, cluster.paths.wconfd_socket) == 4,
            what="luxid is a subscriber, and has read resources and schedules",
        )
        cluster.wait(cluster.submit({"OP_ID": "OP_TEST_DUMMY"}))
        # a job is final before its locks are free, for which wconfd may open their journal, and before it is history
        assert_all_is_free(cluster)
        wait_until(lambda: cluster.luxi(ReadHistory()).total == 1, what="luxid has its history open")
        yield cluster


@pytest.fixture(params=sorted(HELLO))
def daemon(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """A daemon's name; afterwards it is the same process, and keeps no connection of the test's."""
    name = str(request.param)
    pid = cluster.daemons[name].pid
    before = open_files(pid)
    yield name
    with RawCaller(socket_of(cluster, name)) as caller:
        assert_served(caller, name)
    wait_until(lambda: open_files(pid) <= before, what="all connections are closed", state=lambda: open_files(pid))
    assert cluster.daemons[name].poll() is None


@pytest.fixture
def many_files() -> Iterator[None]:
    """So many descriptors that a test can hold all the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CALLERS
    if hard not in (resource.RLIM_INFINITY,) and hard < wanted:
        pytest.skip(f"a process may have {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def socket_of(cluster: Cluster, daemon: str) -> Path:
    return cluster.paths.query_socket if daemon == "luxid" else cluster.paths.wconfd_socket


def hello(daemon: str) -> bytes:
    method, args = HELLO[daemon]
    return orjson.dumps({"method": method, "args": args}) + ETX


def assert_served(caller: RawCaller, daemon: str) -> None:
    method, args = HELLO[daemon]
    assert caller.call(method, *args)["success"] is True


def test_half_a_message_then_the_end_is_no_ones_trouble(cluster: Cluster, daemon: str) -> None:
    for cut in (1, len(hello(daemon)) // 2, len(hello(daemon)) - 1):
        with RawCaller(socket_of(cluster, daemon)) as caller:
            caller.send(hello(daemon)[:cut])


def test_half_a_message_then_silence_keeps_nobody_waiting(cluster: Cluster, daemon: str) -> None:
    with RawCaller(socket_of(cluster, daemon)) as silent, RawCaller(socket_of(cluster, daemon)) as other:
        silent.send(hello(daemon)[:-5])

        assert_served(other, daemon)
        # and it may still come to its end
        silent.send(hello(daemon)[-5:])
        answer = silent.receive()

    assert answer is not None
    assert orjson.loads(answer)["success"] is True


def test_a_caller_that_goes_before_the_answer_is_no_ones_trouble(cluster: Cluster, daemon: str) -> None:
    for _ in range(50):
        with RawCaller(socket_of(cluster, daemon)) as caller:
            caller.send(hello(daemon) * 20)


def test_500_callers_at_once_are_all_answered(cluster: Cluster, daemon: str, many_files: None) -> None:
    with ExitStack() as stack:
        callers = [stack.enter_context(RawCaller(socket_of(cluster, daemon))) for _ in range(CALLERS)]
        for caller in callers:
            caller.send(hello(daemon))

        answers = [caller.receive() for caller in callers]

    assert [orjson.loads(answer)["success"] for answer in answers if answer is not None] == [True] * CALLERS


def test_a_caller_that_never_reads_stops_nobody_else(cluster: Cluster, daemon: str) -> None:
    with RawCaller(socket_of(cluster, daemon)) as greedy, RawCaller(socket_of(cluster, daemon)) as other:
        # until both directions are full: the daemon waits for this reader
        greedy.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                greedy.sock.send(hello(daemon) * 1000)

        for _ in range(20):
            assert_served(other, daemon)


def test_calls_sent_in_one_piece_are_answered_in_order(cluster: Cluster) -> None:
    with RawCaller(cluster.paths.wconfd_socket) as caller:
        calls = [orjson.dumps({"method": "echo", "args": [str(number)]}) + ETX for number in range(300)]
        caller.send(b"".join(calls))

        answers = [orjson.loads(caller.receive() or b"")["result"] for _ in calls]

    assert answers == [str(number) for number in range(300)]
