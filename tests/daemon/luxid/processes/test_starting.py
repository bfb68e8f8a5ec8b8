"""Starts that fail, and processes that die (DESIGN sections 5 and 7; luxid.md 5.8, 5.9)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.ids import JobId
from common.queue.explanation import Obstacle
from protocol.luxi.why import ExplainJobs
from tests.daemon.luxid.ops import after, command, delay, dummy, gated, process_of, read_job
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.fakes.disks import immutable
from tests.support.stopping import stop
from tests.support.wait import wait_until

StartFake = Callable[[str], None]


@pytest.fixture
def start_fake(idle: Cluster) -> Iterator[StartFake]:
    """Start a fork server that is broken in the given way, then luxid."""
    fakes: list[subprocess.Popen[bytes]] = []

    def start(mode: str) -> None:
        (idle.root / "fake").write_text(mode)
        fakes.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.support.fakes.forkserver", str(idle.root)],
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )
        )
        wait_until(idle.paths.forkserver_socket.exists, what="the fake listens")
        idle.start("luxid")

    yield start
    for fake in fakes:
        fake.kill()
        fake.wait()


def test_without_a_fork_server_jobs_wait_and_nothing_fails(idle: Cluster) -> None:
    idle.start("luxid")
    job_id = idle.submit(dummy())
    assert idle.status(job_id) == "queued"

    idle.start("forkserver")

    assert idle.wait(job_id) == ["success"]
    assert "forkserver.away" in idle.log("luxid")


def test_a_fork_server_that_is_restarted_is_found_again_and_jobs_live_on(cluster: Cluster) -> None:
    go = cluster.root / "go"
    running = cluster.submit(gated(go))
    cluster.wait(running, status="running")

    cluster.kill("forkserver")
    queued = cluster.submit(dummy())
    cluster.start("forkserver")
    go.touch()

    assert cluster.wait(running, queued) == ["success", "success"]


@pytest.mark.parametrize("mode", ["die", "vanish"])
def test_a_job_whose_processes_come_to_nothing_is_ended_after_a_few(
    idle: Cluster, start_fake: StartFake, mode: str
) -> None:
    start_fake(mode)
    job_id = idle.submit(dummy(), dummy())

    assert idle.wait(job_id) == ["error"]
    (results,) = idle.job(job_id, "opresult")
    assert "could not be started" in results[0]
    assert "3 attempts" in results[0]
    assert read_job(idle, job_id).ops[0].input["reason"][-1][:2] == ["gnt:daemon:luxid:startjobs", results[0]]


def test_a_fork_server_that_refuses_fails_no_job(idle: Cluster, start_fake: StartFake) -> None:
    start_fake("refuse")
    job_id = idle.submit(dummy())

    wait_until(lambda: idle.log("luxid").count("job.start_failed") >= 4, what="several attempts")

    assert idle.status(job_id) == "queued"
    assert "no room for another process" in idle.log("luxid")


def test_a_fork_server_that_hangs_fails_no_job(idle: Cluster) -> None:
    idle.configure("[luxid]\nstart_timeout_s = 0.1\nsweep_s = 3600.0\n")
    idle.start("forkserver", "luxid")
    tally = idle.root / "tally"
    stop(idle.daemons["forkserver"].pid)
    job_id = idle.submit(command("sh", "-c", f"echo >> {tally}"))

    wait_until(lambda: idle.log("luxid").count("job.start_failed") >= 4, what="several attempts")
    wait_until(
        lambda: any("no answer from the job's process" in why for why in why_not(idle, job_id)), what="luxid tells why"
    )
    assert idle.status(job_id) == "queued"
    idle.daemons["forkserver"].send_signal(signal.SIGCONT)

    assert idle.wait(job_id) == ["success"]
    assert tally.read_bytes() == b"\n"


def test_processes_that_cannot_make_their_livelocks_fail_no_job(cluster: Cluster) -> None:
    with immutable(cluster.paths.livelocks):
        job_id = cluster.submit(dummy())
        wait_until(lambda: cluster.log("luxid").count("its livelock cannot be made") >= 4, what="several attempts")
        assert cluster.status(job_id) == "queued"

    assert cluster.wait(job_id) == ["success"]


def why_not(cluster: Cluster, job_id: JobId) -> list[str]:
    """What keeps luxid from starting the job."""
    (reasons,) = cluster.luxi(ExplainJobs((job_id,)))
    return [reason.what for reason in reasons or () if isinstance(reason, Obstacle)]


def test_a_process_that_is_killed_is_noticed_by_an_event_and_its_slot_is_free(cluster: Cluster) -> None:
    job_ids = cluster.submit_many(*[(delay(60), dummy())] * 4)
    cluster.wait(*job_ids, status="running")
    queued = cluster.submit(dummy(depends=after(job_ids[0], wanted=("error",))))

    os.killpg(process_of(cluster, job_ids[0]), signal.SIGKILL)

    assert cluster.wait(job_ids[0], queued) == ["error", "success"]
    assert "sweep.found_dead" not in cluster.log("luxid")


def test_a_job_lives_as_long_as_anything_that_it_started(cluster: Cluster) -> None:
    """DESIGN section 5: the command has the livelock, too."""
    begun = cluster.root / "begun"
    job_id = cluster.submit(command("sh", "-c", f"touch {begun}; exec sleep 60"))
    # *running* is on disk before the command exists
    wait_until(begun.exists, what="the command has begun")
    pid = process_of(cluster, job_id)

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists(), what="the job process is reaped")
    assert cluster.wait(cluster.submit(dummy())) == ["success"]
    assert cluster.status(job_id) == "running"

    os.killpg(pid, signal.SIGKILL)
    assert cluster.wait(job_id) == ["error"]
