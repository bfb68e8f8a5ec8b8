"""luxid ends in any way and starts again: no job is lost, no opcode runs twice.

Source: DESIGN sections 3 (invariants 1 and 5) and 6, "Restart".
"""

import os
import signal
import subprocess
import sys

import orjson
import pytest

from common.ids import JobId
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.system.livelock import is_alive
from daemons.luxid.files.knownids import GAP
from protocol.luxi.jobs import AutoArchiveJobs, CancelJob
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import after, command, delay, dummy, gated, process_of, read_job
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.wait import wait_until


def restart(cluster: Cluster, number: int = signal.SIGKILL) -> None:
    cluster.kill("luxid", number)
    cluster.start("luxid")


def write_job(cluster: Cluster, job_id: int, *states: JobState, livelock: str | None = None) -> None:
    ops = tuple(JobOp(dummy(result=index), state=state) for index, state in enumerate(states))
    cluster.paths.job_file(job_id).write_bytes(encode_job(Job(JobId(job_id), ops, livelock=livelock, process_id=99)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_running_jobs_live_on_and_their_end_is_seen(cluster: Cluster, number: int) -> None:
    go = cluster.root / "go"
    job_id = cluster.submit(gated(go))
    cluster.wait(job_id, status="running")
    pid = read_job(cluster, job_id).process_id

    restart(cluster, number)
    assert cluster.status(job_id) == "running"
    go.touch()

    assert cluster.wait(job_id) == ["success"]
    assert read_job(cluster, job_id).process_id == pid


def test_a_job_that_ended_meanwhile_is_seen_as_ended(cluster: Cluster) -> None:
    go = cluster.root / "go"
    first, second = cluster.submit_many((gated(go),), (dummy(depends=after(-1)),))
    cluster.wait(first, status="running")
    livelock = read_job(cluster, first).livelock
    cluster.kill("luxid")
    go.touch()
    wait_until(lambda: not is_alive(livelock or ""), what="the job's process has ended")

    cluster.start("luxid")

    assert cluster.wait(first, second) == ["success", "success"]


def test_a_job_that_died_meanwhile_is_finished_at_once_and_keeps_what_had_ended(cluster: Cluster) -> None:
    """luxid.md 12, DIFF-11; 13, BUG-6."""
    job_id = cluster.submit(dummy(result="kept"), delay(60), dummy())
    under_way = (["success", "running", "queued"],)
    wait_until(lambda: cluster.job(job_id, "opstatus") == under_way, what="the second opcode runs")
    pid = process_of(cluster, job_id)
    cluster.kill("luxid")
    os.killpg(pid, signal.SIGKILL)
    livelock = read_job(cluster, job_id).livelock
    wait_until(lambda: not is_alive(livelock or ""), what="the job's process is gone")

    cluster.start("luxid")

    assert cluster.wait(job_id) == ["error"]
    text = f"the process of job {job_id} died before the job ended"
    assert cluster.job(job_id, "opstatus", "opresult") == (
        ["success", "error", "error"],
        ["kept", text, ["OpExecError", ["preceding opcode failed"]]],
    )
    assert read_job(cluster, job_id).ops[1].input["reason"][-1][:2] == ["gnt:daemon:luxid:deathdetection", text]


def test_queued_and_waiting_jobs_go_on(cluster: Cluster) -> None:
    running = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*running, status="running")
    queued = cluster.submit(dummy())
    waiting = cluster.submit(dummy(depends=after(queued)))

    restart(cluster)
    assert (cluster.status(queued), cluster.status(waiting)) == ("queued", "waiting")
    cluster.luxi(CancelJob(running[0], kill=True))

    assert cluster.wait(queued, waiting) == ["success", "success"]


def test_a_job_left_between_two_opcodes_is_continued(idle: Cluster) -> None:
    write_job(idle, 1, JobState.SUCCESS, JobState.QUEUED, livelock=str(idle.paths.livelocks / "job_000001_1"))

    idle.start("forkserver", "luxid")

    assert idle.wait(1) == ["success"]
    assert idle.job(1, "opresult") == ([None, 1],)


def test_a_job_that_was_just_being_started_is_started_once_more(cluster: Cluster) -> None:
    """luxid.md 13, BUG-10: the livelock decides, not the status."""
    witness = cluster.root / "witness"
    job_ids = []
    for _ in range(5):
        job_ids += cluster.submit_many(*[(command("sh", "-c", f"echo $GANTRY_JOB_ID >> {witness}"),)] * 5)
        restart(cluster)

    assert set(cluster.wait(*job_ids)) <= {"success"}
    assert len(witness.read_text().splitlines()) == len(job_ids)


def test_ids_are_never_used_again(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many(*[(dummy(),)] * 3))
    cluster.luxi_wire(AutoArchiveJobs(-1, 60))
    cluster.kill("luxid")
    cluster.paths.serial_file.unlink()

    cluster.start("luxid")

    assert cluster.submit(dummy()) == 3 + GAP + 1


def test_a_damaged_job_file_is_set_aside_and_the_rest_is_served(idle: Cluster) -> None:
    write_job(idle, 1, JobState.SUCCESS)
    idle.paths.job_file(2).write_bytes(b'{"id": 2, "ops": [{"inp')
    write_job(idle, 3, JobState.SUCCESS)

    idle.start("luxid")

    assert idle.luxi(QueryJobs(None, ("id",))) == ((1,), (3,))
    assert (idle.paths.damaged / "job-2").read_bytes() == b'{"id": 2, "ops": [{"inp'
    assert "job.damaged job=2" in idle.log("luxid")
    assert idle.submit(dummy()) == 3 + GAP + 1


def test_left_over_temporary_files_are_removed(idle: Cluster) -> None:
    temps = [idle.paths.queue / name for name in ("job-1-abc.tmp", "serial-abc.tmp")]
    temps += [idle.paths.data / f"{name}-0123456789ab.tmp" for name in ("notify.since", "removals", "watcher.pause")]
    for temp in temps:
        temp.write_text("half")
    other = idle.paths.queue / "notes.tmp"
    other.write_text("not ours")

    idle.start("luxid")

    assert not any(temp.exists() for temp in temps)
    assert other.exists()


def test_a_second_luxid_is_refused_with_a_word_on_what_to_do(cluster: Cluster) -> None:
    second = subprocess.run(
        [sys.executable, "-P", "-m", "daemons.luxid.main", "--root", str(cluster.root)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert second.returncode == 1
    assert "stop it first" in second.stderr
    assert cluster.wait(cluster.submit(dummy())) == ["success"]


def test_a_serial_that_is_no_number_stops_the_daemon(idle: Cluster) -> None:
    idle.paths.serial_file.write_text("many\n")

    with pytest.raises(AssertionError, match="write the highest job id ever used"):
        idle.start("luxid")


def test_files_of_a_later_version_are_left_alone(idle: Cluster) -> None:
    idle.paths.version_file.write_text("2\n")

    with pytest.raises(AssertionError, match="reads queues of version 1"):
        idle.start("luxid")


def test_keys_that_we_do_not_know_survive(idle: Cluster) -> None:
    content = {"id": 1, "ops": [{"input": dummy(), "status": "queued", "later": 1}], "tomorrow": [2]}
    idle.paths.job_file(1).write_bytes(orjson.dumps(content))
    idle.start("luxid")
    idle.luxi(CancelJob(JobId(1)))

    after_cancel = orjson.loads(idle.paths.job_file(1).read_bytes())

    assert (after_cancel["tomorrow"], after_cancel["ops"][0]["later"]) == ([2], 1)
    assert after_cancel["ops"][0]["status"] == "canceled"
