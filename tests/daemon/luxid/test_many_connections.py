"""Callers that fill a daemon's connections keep no file from being read or written (issue 9, 1.1)."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.luxid.ops import after, delay, dummy, gated, process_of
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

FEW = 256
MOST = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@contextmanager
def idle_connections(path: Path, count: int) -> Iterator[None]:
    """Connections that say nothing."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(str(path))
        yield


@contextmanager
def given(soft: int) -> Iterator[None]:
    """What is started meanwhile is given so many descriptors, and may take more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limit_of(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An installation whose daemons can have no more than 256 descriptors each."""
    with Cluster(tmp_path, settings="[luxid]\nsweep_s = 3600.0\n", descriptors=FEW) as cluster:
        cluster.start()
        yield cluster


def test_idle_connections_of_luxid_touch_no_job(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    running = cluster.submit_many(*[(gated(gate), dummy())] * 4)
    dependent = cluster.submit(dummy(depends=after(running[0])))
    cluster.wait(*running, status="running")

    with idle_connections(cluster.paths.query_socket, FEW):
        wait_until(lambda: "connection.refused" in cluster.log("luxid"), what="luxid takes no more")
        gate.touch()

        # on a connection that was there before
        assert cluster.wait(*running, dependent) == ["success"] * 5
        later = cluster.submit_many(*[(dummy(),)] * 100)
        assert cluster.wait(*later) == ["success"] * 100

    assert "too many open files" not in cluster.log("luxid").lower()


def test_idle_connections_of_wconfd_let_jobs_wait_and_end_none(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    locked = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(locked, status="running")

    with idle_connections(cluster.paths.wconfd_socket, FEW):
        wait_until(lambda: "connection.refused" in cluster.log("wconfd"), what="wconfd takes no more")
        gate.touch()
        assert cluster.wait(locked) == ["success"]
        later = cluster.submit(dummy(locks={"node/n1": "exclusive"}))

    assert cluster.wait(later) == ["success"]
    assert "too many open files" not in cluster.log("wconfd").lower()


def test_daemons_take_all_that_they_may_have_and_job_processes_do_not(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        with given(FEW):
            cluster.start()
        job_id = cluster.submit(delay(60))
        cluster.wait(job_id, status="running")

        assert [limit_of(cluster.daemons[name].pid) for name in ("luxid", "wconfd")] == [MOST] * 2
        assert limit_of(process_of(cluster, job_id)) <= 1024
