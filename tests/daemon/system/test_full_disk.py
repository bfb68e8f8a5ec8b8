"""A full disk and an unwritable queue: clear errors, nothing half stored, and work goes on when there is room.

Source: DESIGN section 8 ("a failed write is an error to the caller and never acknowledged").
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import RemoteError
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import CleanupLocks, ListLocks, TryUpdateLocks
from tests.support.checked import assert_all_is_free, checked_cluster
from tests.support.cluster import Cluster
from tests.support.fakes.disks import immutable, no_room, small_disk
from tests.support.fakes.durable import durable_locks
from tests.support.stamps import Stamps
from tests.support.wait import wait_until

WANT = (LockRequest(parse_lock("node/n1"), LockMode.EXCLUSIVE),)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An installation that runs, whose data folder is a small disk."""
    root = tmp_path / "root"
    # a job process that cannot write down how it ended crashes, and says so
    with small_disk(root / "lib"), checked_cluster(root, judged=("luxid", "wconfd")) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def stamps(tmp_path: Path) -> Stamps:
    return Stamps(tmp_path / "stamps")


def queue_files(cluster: Cluster) -> list[str]:
    return sorted(path.name for path in cluster.paths.queue.iterdir())


def known_jobs(cluster: Cluster) -> list[int]:
    return [row[0] for row in cluster.luxi_wire(QueryJobs(None, ("id",)))]


def test_a_full_disk_refuses_jobs_by_name_and_takes_them_when_there_is_room(cluster: Cluster, stamps: Stamps) -> None:
    first = cluster.submit(stamps.work())
    cluster.wait(first)
    stored = queue_files(cluster)

    with no_room(cluster.paths.data):
        for _ in range(3):
            with pytest.raises(RemoteError, match=r"queue cannot be written: no space left.*make room") as refusal:
                cluster.submit(stamps.work())
        with pytest.raises(RemoteError, match="no space left"):
            cluster.submit_many((stamps.work(),), (stamps.work(),))
        assert known_jobs(cluster) == [first]
        assert queue_files(cluster) == stored

    assert refusal.value.code == "unavailable"
    second = cluster.submit(stamps.work())
    assert second > first
    assert cluster.wait(second) == ["success"]
    assert known_jobs(cluster) == [first, second]
    cluster.restart("luxid")
    assert known_jobs(cluster) == [first, second]
    assert cluster.submit(stamps.work()) > second


def test_an_unwritable_queue_refuses_jobs_by_name(tmp_path: Path, stamps: Stamps) -> None:
    with checked_cluster(tmp_path / "root") as cluster:
        cluster.start()
        stored = queue_files(cluster)

        with immutable(cluster.paths.queue):
            with pytest.raises(
                RemoteError, match=r"queue cannot be written: operation not permitted; .*let the user of luxid write in"
            ):
                cluster.submit(stamps.work())
            assert known_jobs(cluster) == []
            assert queue_files(cluster) == stored

        assert cluster.wait(cluster.submit(stamps.work())) == ["success"]


def test_a_lock_that_cannot_be_made_durable_is_not_granted(cluster: Cluster) -> None:
    livelock = Livelock.create(cluster.paths.livelocks, "test")
    owner = Owner("test", livelock.path)

    with no_room(cluster.paths.data):
        spend_room(cluster, Owner("other", livelock.path))
        content = durable_locks(cluster.paths.locks_data)
        with pytest.raises(RemoteError, match=r"locks\.data.*could not be written.*nothing was changed") as refusal:
            cluster.wconf(TryUpdateLocks(owner, WANT))
        assert cluster.wconf(ListLocks(owner)) == ()
        assert durable_locks(cluster.paths.locks_data) == content

    assert refusal.value.code == "unavailable"
    assert cluster.wconf(TryUpdateLocks(owner, WANT)) == ()
    assert cluster.wconf(ListLocks(owner)) == ((WANT[0].lock, LockMode.EXCLUSIVE),)
    livelock.remove()
    assert_all_is_free(cluster)


def spend_room(cluster: Cluster, owner: Owner) -> None:
    """Change locks on a full disk until nothing is left of the room that their journal has."""
    lock = parse_lock("network/w")
    for turn in range(2000):
        mode = None if turn % 2 else LockMode.SHARED
        try:
            cluster.wconf(TryUpdateLocks(owner, (LockRequest(lock, mode),)))
        except RemoteError:
            return
    raise AssertionError("the disk is full, and takes changes all the same")


def test_a_job_that_ends_while_the_disk_is_full_is_final_when_there_is_room(cluster: Cluster, stamps: Stamps) -> None:
    job_id = cluster.submit(stamps.gated("gate", locks={"node/n1": "exclusive"}))
    wait_until(lambda: stamps.runs(job_id), what="the command runs")

    with no_room(cluster.paths.data):
        stamps.open_gate("gate")
        wait_until(lambda: stamps.run(job_id).end, what="the command ends")
        wait_until(lambda: "no space left" in cluster.log("luxid") + cluster.log("forkserver"), what="it is noticed")

    assert cluster.wait(job_id)[0] in ("success", "error")
    # what wconfd could not write when the job died it tries again when it next looks at all owners
    cluster.wconf(CleanupLocks())
    after = cluster.submit(stamps.work(locks={"node/n1": "exclusive"}))
    assert cluster.wait(after) == ["success"]
    stamps.assert_nothing_ran_twice()
    assert_all_is_free(cluster)


def test_a_queued_job_that_cannot_be_canceled_durably_stays_queued(cluster: Cluster, stamps: Stamps) -> None:
    first, second = cluster.submit_many((stamps.gated("gate"),), (stamps.work(depends=[[-1, ["success"]]]),))
    cluster.wait(first, status="running")
    # before that its process still has something to write
    wait_until(lambda: stamps.runs(first), what="the command runs")

    with no_room(cluster.paths.data):
        done, text = cluster.luxi_wire(CancelJob(second))
        assert done is False
        assert "no space left" in text
        assert cluster.status(second) == "waiting"

    assert cluster.luxi(CancelJob(second)).is_done is True
    stamps.open_gate("gate")
    assert cluster.wait(first, second) == ["success", "canceled"]
    assert stamps.runs(second) == []
