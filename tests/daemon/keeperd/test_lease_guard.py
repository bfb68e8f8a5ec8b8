"""A daemon of the master starts only under a mastership, and ends by itself when that has run out (lease.md 7)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from common.lease.deadline import Deadline, DeadlineWriter, boottime
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.settings import ClusterSettings, Settings
from common.system.leaseguard import DeadlineTimer
from common.system.livelock import is_alive
from common.system.program import NOT_MASTER, DaemonOptions
from protocol.mastercheck import check_master
from tests.support.cluster import Cluster
from tests.support.etcds.playedkeeper import PlayedKeeper, settings_of_lease
from tests.support.wait import PATIENCE_S, wait_until

NODE = "node1.test"
# a process that is never idle, so that its guard must get through
BUSY = """
import sys
from pathlib import Path
from common.lease.deadline import Deadline
from common.system.leaseguard import end_at_deadline
print("loaded", flush=True)
sys.stdin.readline()
end_at_deadline(Deadline(Path(sys.argv[1])))
print("guarded", flush=True)
while True:
    sorted(range(1000))
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return Settings(paths, cluster=ClusterSettings("etcd", NODE))


def admit(settings: Settings) -> None:
    trio.run(check_master, settings, DaemonOptions(None, debug=False, log_to_stderr=False))


def test_nobody_is_admitted_without_a_mastership_that_still_holds(settings: Settings) -> None:
    with pytest.raises(NoLongerMaster, match="does not hold the mastership"):
        admit(settings)
    keeper = PlayedKeeper(settings.paths, NODE)

    keeper.win()
    admit(settings)
    keeper.take_away()
    with pytest.raises(NoLongerMaster):
        admit(settings)


def test_the_own_node_must_have_heard_of_the_epoch(settings: Settings) -> None:
    PlayedKeeper(settings.paths, NODE).win()

    settings.paths.epoch_file.write_text(f"7 {NODE}\n")
    with pytest.raises(NoLongerMaster, match="has epoch 1, but it has heard of 7"):
        admit(settings)
    settings.paths.epoch_file.write_text("7 node2.test\n")
    with pytest.raises(NoLongerMaster, match=r"node2\.test has become it"):
        admit(settings)


def test_a_timer_fires_at_the_deadline_and_follows_it(tmp_path: Path) -> None:
    writer = DeadlineWriter(tmp_path / "deadline")
    writer.set(boottime() - 1)
    timer = DeadlineTimer(Deadline(tmp_path / "deadline"), blocking=True)

    timer.wait()
    writer.set(boottime() + 3600)
    assert not timer.has_passed()
    writer.set(boottime() - 1)
    assert timer.has_passed()


def test_a_process_that_is_busy_ends_at_the_deadline(tmp_path: Path) -> None:
    # on a machine that stands still the first deadline may pass before it is moved on
    assert any(ends_at_a_deadline_that_moved_on(tmp_path / "deadline", ahead_s) for ahead_s in (2.0, 20.0))


def ends_at_a_deadline_that_moved_on(path: Path, ahead_s: float) -> bool:
    writer = DeadlineWriter(path)
    writer.set(boottime() + 3600)
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as busy:
        assert busy.stdin is not None
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"loaded\n"
        writer.set(boottime() + ahead_s)
        busy.stdin.write(b"\n")
        busy.stdin.flush()
        was_guarded = busy.stdout.readline() == b"guarded\n"
        until = boottime() + ahead_s + 0.5
        writer.set(until)

        assert busy.wait(PATIENCE_S) == NOT_MASTER
        return was_guarded and boottime() >= until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=settings_of_lease(NODE)) as cluster:
        yield cluster


def test_the_fork_server_kills_all_jobs_before_it_ends(cluster: Cluster) -> None:
    keeper = PlayedKeeper(cluster.paths, NODE)
    keeper.win()
    cluster.start("forkserver")
    livelock = cluster.paths.livelocks / "job_1_1"
    job = subprocess.Popen(
        ["sh", "-c", 'exec 9>"$1"; flock 9; sleep 600 & wait', "sh", livelock], start_new_session=True
    )
    try:
        wait_until(lambda: is_alive(str(livelock)), what="the job has its livelock")
        ended = cluster.daemons.pop("forkserver")
        keeper.pass_deadline()
        # whatever it is asked, it looks at the deadline first
        ended.send_signal(signal.SIGCHLD)

        assert ended.wait(PATIENCE_S) == NOT_MASTER
        assert job.wait(PATIENCE_S) == -signal.SIGKILL
        # its command too
        wait_until(lambda: not _is_in_group(job.pid), what="the session of the job is empty")
    finally:
        job.kill()
        job.wait()


def _is_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_on_one_machine_nothing_is_watched(settings: Settings) -> None:
    alone = attrs.evolve(settings, cluster=ClusterSettings())
    before = set(os.listdir("/proc/self/task"))

    admit(alone)

    assert set(os.listdir("/proc/self/task")) <= before
