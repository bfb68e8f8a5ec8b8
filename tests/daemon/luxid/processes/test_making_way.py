"""Before the mastership moves, nothing new begins, and what runs ends or goes on elsewhere (DESIGN section 14)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import TooBusy
from protocol.blocking import BlockingClient
from protocol.luxi.daemon import PrepareMove
from protocol.luxi.jobs import SubmitJob
from tests.daemon.luxid.ops import dummy, gated, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def submit_once(cluster: Cluster) -> None:
    """Without the patience of most clients."""
    with BlockingClient(cluster.paths.query_socket) as client:
        client.call(SubmitJob((dummy(),)))


def test_nothing_begins_and_all_goes_on_when_the_caller_hangs_up(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(gated(tmp_path / "gate"), dummy())
    cluster.wait(job, status="running")
    prepare = PrepareMove(kill=False)
    with BlockingClient(cluster.paths.query_socket) as keeper:
        keeper.start(prepare)
        wait_until(lambda: "master.makes_way" in cluster.log("luxid"), what="luxid makes way")
        with pytest.raises(TooBusy, match="the mastership is being moved to another node; try again"):
            submit_once(cluster)
        assert "master.made_way" not in cluster.log("luxid")

        (tmp_path / "gate").touch()
        keeper.finish(prepare)
        # its process has ended between two opcodes
        assert [op.state.value for op in read_job(cluster, job).ops] == ["success", "queued"]
        assert not list(cluster.job_pids())
        assert cluster.job(job, "opstatus") == (["success", "queued"],)

    cluster.wait(job, status="success")
    cluster.wait(cluster.submit(dummy()), status="success")


def test_what_runs_here_is_killed_if_that_is_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(gated(tmp_path / "gate"))
    cluster.wait(job, status="running")
    with BlockingClient(cluster.paths.query_socket) as keeper:
        keeper.call(PrepareMove(kill=True))
        assert cluster.status(job) == "canceled"


def test_a_caller_who_gives_up_has_no_effect_any_more(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.submit(gated(tmp_path / "gate"))
    cluster.wait(job, status="running")
    with BlockingClient(cluster.paths.query_socket) as keeper:
        keeper.start(PrepareMove(kill=False))
        wait_until(lambda: "master.makes_way" in cluster.log("luxid"), what="luxid makes way")

    def is_taken() -> bool:
        with contextlib.suppress(TooBusy):
            submit_once(cluster)
            return True
        return False

    wait_until(is_taken, what="luxid takes jobs again")
