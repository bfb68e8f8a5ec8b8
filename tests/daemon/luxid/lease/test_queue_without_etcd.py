"""While etcd is full or silent nothing is acknowledged, nothing is lost, and what runs goes on (DESIGN section 14)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from common.errors import GantryError
from common.ids import JobId
from common.lease.deadline import FullnessWriter
from common.lease.records import Fullness
from common.queue.explanation import Obstacle
from protocol.blocking import BlockingClient
from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.jobs import (
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    ChangeJobs,
    SubmitJob,
    SubmitManyJobs,
    TermsChange,
)
from protocol.luxi.why import ExplainJobs
from protocol.messages import Request
from protocol.wconfd.daemon import ReadWconfdMetrics as ReadLockMetrics
from tests.daemon.luxid.ops import after, dummy, gated, read_job
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd
from tests.support.etcds.fulletcd import SMALL, fill, make_room
from tests.support.machines.playedmasters import PlayedMasters
from tests.support.wait import wait_until

FIRST = "node1.test"


@pytest.fixture
def etcd(tmp_path: Path, etcd_binary: EtcdBinary) -> Iterator[TestEtcd]:
    (tmp_path / "etcd").mkdir()
    with Etcd(tmp_path / "etcd", options=(SMALL,), binary=etcd_binary) as etcd:
        yield TestEtcd(etcd, etcd.new_prefix())


@pytest.fixture
def master(tmp_path: Path, etcd: TestEtcd) -> Iterator[Cluster]:
    with PlayedMasters(tmp_path, etcd.etcd, 1) as nodes:
        # as keeperd does
        FullnessWriter(nodes[FIRST].paths.fullness_file).close()
        yield nodes.begin(FIRST).cluster


def obstacles(master: Cluster, job: JobId) -> str:
    (reasons,) = master.luxi(ExplainJobs((job,)))
    return " ".join(each.what for each in reasons or () if isinstance(each, Obstacle))


def number(master: Cluster, name: str) -> float:
    return master.luxi(ReadMetrics()).number(name)


def has_ended_by_file(master: Cluster, job: int) -> bool:
    return read_job(master, job).next_index is None


def test_ends_wait_and_changes_are_refused_while_etcd_is_full(master: Cluster, etcd: TestEtcd, tmp_path: Path) -> None:
    job = master.submit(gated(tmp_path / "gate"))
    waits = master.submit(dummy(depends=after(job)))
    master.wait(job, status="running")
    trio.run(partial(fill, etcd))

    with BlockingClient(master.paths.query_socket) as client, pytest.raises(GantryError, match="etcd is full"):
        client.call(SubmitJob((dummy(),)))
    (tmp_path / "gate").touch()
    wait_until(lambda: has_ended_by_file(master, job), what="the process has written its end")
    wait_until(lambda: "commit.waits" in master.log("luxid"), what="its end waits")
    assert (master.status(job), master.status(waits)) == ("running", "waiting")
    assert "etcd is full" in obstacles(master, job)
    assert number(master, "etcd_full") == 1

    trio.run(partial(make_room, etcd))
    assert master.wait(job, waits) == ["success", "success"]
    assert master.luxi(ReadMetrics()).distribution("commit_seconds").count > 0
    assert master.wconf(ReadLockMetrics()).number("config_commits") >= 0
    # the id of the refused one is not used again
    assert master.submit(dummy()) == waits + 2


def test_only_starts_and_ends_are_committed_while_etcd_is_nearly_full(master: Cluster, tmp_path: Path) -> None:
    job = master.submit(gated(tmp_path / "gate"))
    waits, unwanted = master.submit(dummy(depends=after(job))), master.submit(dummy(depends=after(job)))
    master.wait(job, status="running")
    level = FullnessWriter(master.paths.fullness_file)
    level.set(Fullness.RESERVED)

    bulk: list[Request[Any]] = [
        SubmitJob((dummy(),)),
        SubmitManyJobs(((dummy(),), (dummy(),))),
        ArchiveJob(job),
        AutoArchiveJobs(0, 10),
        ChangeJobs((waits,), TermsChange(name="later")),
    ]
    for call in bulk:
        with pytest.raises(GantryError, match=r"etcd is nearly full.*see 'gantry cluster'"):
            master.luxi(call)
    assert master.luxi(CancelJob(unwanted)).is_done
    (tmp_path / "gate").touch()
    assert master.wait(job, waits, unwanted) == ["success", "success", "canceled"]

    level.set(Fullness.SLOW)
    later = master.submit(dummy())
    assert master.wait(later) == ["success"]
    assert master.luxi(AutoArchiveJobs(-1, 60)).archived_count == 4
    level.close()


def test_changes_wait_for_a_silent_etcd(master: Cluster, etcd: TestEtcd, tmp_path: Path) -> None:
    job = master.submit(gated(tmp_path / "gate"))
    master.wait(job, status="running")
    (member,) = etcd.etcd.members
    request = SubmitJob((dummy(),))
    with BlockingClient(master.paths.query_socket) as client:
        member.pause()
        try:
            client.start(request)
            (tmp_path / "gate").touch()
            wait_until(lambda: has_ended_by_file(master, job), what="the process has written its end")
            wait_until(
                lambda: "etcd has not replied for" in obstacles(master, job), what="luxid says what it waits for"
            )
            assert master.status(job) == "running"
            wait_until(lambda: number(master, "commits_waiting") == 2, what="the job's end waits, too")
            assert master.status(job) == "running"
        finally:
            member.resume()
        second = client.finish(request)

    assert master.wait(job, second) == ["success", "success"]
