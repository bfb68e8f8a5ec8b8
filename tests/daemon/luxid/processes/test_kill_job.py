"""A kill always ends the job: CancelJob with `kill`, while the command resists, or processes die. DESIGN section 16.

With control groups where they may be made, and without.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.ids import JobId
from common.locks import parse_lock
from common.system.livelock import is_alive
from common.system.processes import Process, find_process, holders, is_living
from protocol.luxi.jobs import CancelJob
from protocol.wconfd.locks import ListAllLocksOwners
from tests.daemon.jobproc.test_supervisor import STUBBORN
from tests.daemon.luxid.ops import command, delay, dummy, read_job
from tests.support.checked import assert_all_is_free
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until

LOCKS = {"node/n1": "exclusive"}


@pytest.fixture(params=["auto", "off"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    settings = f'[luxid]\nkill_grace_s = 0.3\nsweep_s = 3600.0\n[jobproc]\ncgroups = "{request.param}"\n'
    with Cluster(tmp_path / "root", settings=settings) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Cluster]:
    """The grace time is longer than any test."""
    with Cluster(tmp_path / "root", settings="[luxid]\nkill_grace_s = 600\nsweep_s = 3600.0\n") as cluster:
        cluster.start()
        yield cluster


def submit_stubborn(cluster: Cluster, **parameters: object) -> tuple[JobId, list[Process]]:
    """A job whose processes ignore TERM and leave their session, once all of them are there."""
    folder = cluster.root / "pids"
    folder.mkdir()
    folder.chmod(0o777)
    job_id = cluster.submit(command(sys.executable, "-c", STUBBORN, str(folder), locks=LOCKS, **parameters), dummy())
    wait_until(lambda: len(os.listdir(folder)) == 12, what="all have begun")
    processes = [process for name in os.listdir(folder) if (process := find_process(int(name))) is not None]
    assert len(processes) == 12
    return job_id, processes


def livelock_of(cluster: Cluster, job_id: int) -> str:
    return read_job(cluster, job_id).livelock or ""


def supervisor_of(cluster: Cluster, job_id: int) -> Process:
    job = read_job(cluster, job_id)
    [found] = [process for process in holders(job.livelock or "") if process.pid != job.process_id]
    return found


def holds_lock(cluster: Cluster, job_id: int) -> bool:
    rows = cluster.wconf(ListAllLocksOwners())
    owners = dict(rows).get(parse_lock("node/n1"), ())
    return [owner.ident for owner, _ in owners] == [job_id]


def kill(cluster: Cluster, job_id: int) -> tuple[bool, str]:
    done, text = cluster.luxi_wire(CancelJob(JobId(job_id), kill=True))
    return done, text


def assert_canceled_and_gone(cluster: Cluster, job_id: int, processes: list[Process]) -> None:
    assert cluster.wait(job_id) == ["canceled"]
    assert not any(map(is_living, processes))
    assert_all_is_free(cluster)


def test_all_that_a_command_started_has_ended_when_its_job_is_canceled(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster)

    assert kill(cluster, job_id)[0] is True

    assert_canceled_and_gone(cluster, job_id, processes)
    assert not cluster.paths.kill_message(job_id).exists()


def test_the_rest_of_a_kill_needs_no_luxid(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster)
    livelock = livelock_of(cluster, job_id)

    kill(cluster, job_id)
    cluster.kill("luxid")
    wait_until(lambda: not is_alive(livelock), what="nothing of the job lives")

    assert not any(map(is_living, processes))
    cluster.start("luxid")
    assert_canceled_and_gone(cluster, job_id, processes)


def test_a_command_whose_job_process_was_killed_is_ended_through_its_supervisor(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster)
    pid = read_job(cluster, job_id).process_id
    assert pid
    os.kill(pid, signal.SIGKILL)

    kill(cluster, job_id)

    assert_canceled_and_gone(cluster, job_id, processes)


def test_a_stopped_job_process_and_a_stopped_supervisor_are_ended_after_all_else(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster)
    pid = read_job(cluster, job_id).process_id
    assert pid
    stop(supervisor_of(cluster, job_id).pid)
    stop(pid)

    kill(cluster, job_id)

    assert_canceled_and_gone(cluster, job_id, processes)


def test_a_luxid_that_was_killed_before_it_sent_a_signal_is_followed_by_one_that_does(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster)
    cluster.kill("luxid")
    # as far as it came
    cluster.paths.kill_message(job_id).touch()

    cluster.start("luxid")

    assert_canceled_and_gone(cluster, job_id, processes)


def test_a_unit_that_does_not_listen_is_ended_without_the_grace_time(patient: Cluster) -> None:
    job_id = patient.submit(delay(600), dummy())
    stopped = patient.submit(delay(600))
    patient.wait(job_id, stopped, status="running")
    stop(read_job(patient, stopped).process_id or 0)

    kill(patient, job_id)
    kill(patient, stopped)

    assert patient.wait(job_id, stopped) == ["canceled", "canceled"]


def test_a_command_has_the_grace_time_and_is_shown_as_canceling_until_it_has_ended(patient: Cluster) -> None:
    begun, go = patient.root / "begun", patient.root / "go"
    script = (
        f"trap 'while [ ! -e {go} ]; do sleep 0.05; done; exit 0' TERM; touch {begun}; while :; do sleep 0.05; done"
    )
    job_id = patient.submit(command("sh", "-c", script, locks=LOCKS), dummy())
    wait_until(begun.exists, what="the command has begun")
    patient.wait(job_id, status="running")

    kill(patient, job_id)

    assert patient.status(job_id) == "canceling"
    wait_until(lambda: read_job(patient, job_id).state.value == "canceling", what="the file says so")
    assert holds_lock(patient, job_id)
    go.touch()
    assert patient.wait(job_id) == ["canceled"]
    assert patient.job(job_id, "opstatus")[0] == ["canceled", "canceled"]


def test_what_an_ended_job_left_under_its_locks_is_ended_by_a_kill_of_it(cluster: Cluster) -> None:
    job_id, processes = submit_stubborn(cluster, keep_locks=True)
    # as the command is told to end
    (cluster.root / "pids.over").touch()
    wait_until(lambda: cluster.job(job_id, "opstatus")[0][0] == "success", what="the command has ended")
    # the second opcode waits for them
    cluster.luxi(CancelJob(job_id))
    assert cluster.wait(job_id) == ["canceled"]
    assert all(map(is_living, processes))
    assert holds_lock(cluster, job_id)

    done, text = kill(cluster, job_id)

    assert (done, text) == (True, f"job {job_id} has ended; what it left running is being ended")
    assert_all_is_free(cluster)
    assert not any(map(is_living, processes))
    assert kill(cluster, job_id)[0] is False


def test_a_stranger_that_has_the_number_of_a_dead_job_process_gets_no_signal(patient: Cluster) -> None:
    """Its command lives on, so the livelock is held and tells nothing of the number."""
    begun = patient.root / "begun"
    job_id = patient.submit(command("sh", "-c", f"touch {begun}; exec sleep 600"))
    wait_until(begun.exists, what="the command has begun")
    job = read_job(patient, job_id)
    assert job.process_id
    stranger = os.fork()
    if stranger == 0:
        while True:
            signal.pause()
    patient.kill("luxid")
    path = patient.paths.job_file(job_id)
    path.write_text(path.read_text().replace(f'"process_id":{job.process_id}', f'"process_id":{stranger}'))
    assert read_job(patient, job_id).process_id == stranger
    os.kill(job.process_id, signal.SIGKILL)
    patient.start("luxid")

    kill(patient, job_id)

    assert patient.wait(job_id) == ["canceled"]
    assert os.waitpid(stranger, os.WNOHANG) == (0, 0)
    os.kill(stranger, signal.SIGKILL)
    os.waitpid(stranger, 0)
