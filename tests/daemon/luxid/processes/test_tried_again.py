"""Commands that are tried again, with all daemons (DESIGN section 16; everyday.md b, j)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from common.queue.jobs import Job
from common.queue.reasons import Try, tries_of, try_entry
from common.system.livelock import is_alive
from protocol.luxi.jobs import ArchiveJob, CancelJob, ReadJobOutput
from tests.daemon.luxid.conftest import NO_SWEEP
from tests.daemon.luxid.ops import after, command, dummy, process_of, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = f"[luxid]\nmax_running_jobs = 4\nkill_grace_s = 0.2\n{NO_SWEEP}"
    with Cluster(tmp_path_factory.mktemp("retries"), settings=settings) as made:
        made.start()
        yield made


def shell(script: str, **fields: Any) -> dict[str, Any]:
    return command("sh", "-c", script, **{"retry_delay": 0, **fields} if "retries" in fields else fields)


def output_of(cluster: Cluster, job_id: int, number: int) -> str:
    return cluster.luxi(ReadJobOutput(JobId(job_id), of_try=number)).text


def wait_for(path: Path) -> None:
    wait_until(path.exists, what=f"{path.name} is there")


def kill_job_process(cluster: Cluster, job_id: int) -> None:
    """With all that it has started."""
    cluster.kill_group(process_of(cluster, job_id))


def test_tries_run_one_after_the_other_and_dependents_wait_for_the_last(cluster: Cluster) -> None:
    ran = cluster.root / "ran"
    tried = cluster.submit(
        shell(f"echo try $GANTRY_TRY | tee -a {ran}; [ $GANTRY_TRY = 3 ] || exit 75", retries=3, retry_on=["exit=75"])
    )
    follower = cluster.submit(shell(f"echo follower >> {ran}", depends=after(tried)))

    assert cluster.wait(tried, follower) == ["success", "success"]

    assert ran.read_text().splitlines() == ["try 1", "try 2", "try 3", "follower"]
    (result,) = cluster.job(tried, "opresult")[0]
    assert (result["exit_code"], result["tries"]) == (0, 3)
    # an end of a process between two tries is no failed start
    assert "job.start_failed" not in cluster.log("luxid")


def test_the_output_of_each_try_is_read_by_itself(cluster: Cluster) -> None:
    job_id = cluster.submit(shell("echo try $GANTRY_TRY; exit 1", retries=1))
    cluster.wait(job_id, status="error")

    for _ in ("in the queue", "in the archive"):
        assert [output_of(cluster, job_id, number) for number in (1, 2)] == ["try 1\n", "try 2\n"]
        assert cluster.luxi(ReadJobOutput(job_id)).text == "try 1\ntry 2\n"
        end = cluster.luxi(ReadJobOutput(job_id, 6, of_try=1))
        assert (end.text, end.is_end) == ("", True)
        with pytest.raises(RemoteError, match=f"job {job_id} has had 2 tries; there is no try 3"):
            output_of(cluster, job_id, 3)
        cluster.luxi(ArchiveJob(job_id))


def test_the_output_of_a_try_that_goes_on_is_waited_for(cluster: Cluster) -> None:
    gate = cluster.root / "print"
    script = f"echo one; [ $GANTRY_TRY = 1 ] && exit 1; until [ -e {gate} ]; do sleep 0.02; done; echo two"
    job_id = cluster.submit(shell(script, retries=1))
    # luxid learns it after the job's file, which the process writes
    wait_until(lambda: cluster.job(job_id, "tries")[0][0], what="the first try has failed")

    first = cluster.luxi(ReadJobOutput(job_id, 0, 30.0, of_try=2))
    gate.touch()

    assert first.text == "one\n"
    assert cluster.luxi(ReadJobOutput(job_id, first.next_offset, 30.0, of_try=2)).text == "two\n"


def test_a_job_whose_process_is_killed_has_failed_although_it_has_retries(cluster: Cluster) -> None:
    begun = cluster.root / "begun-once"
    job_id = cluster.submit(shell(f"echo x >> {begun}; sleep 600", retries=3))
    wait_for(begun)

    kill_job_process(cluster, job_id)

    assert cluster.wait(job_id) == ["error"]
    assert begun.read_text() == "x\n"
    assert "died" in str(cluster.job(job_id, "opresult"))


def test_a_rerunnable_command_whose_process_is_killed_is_run_again(cluster: Cluster) -> None:
    begun = cluster.root / "begun-twice"
    script = f"echo $GANTRY_TRY >> {begun}; [ $GANTRY_TRY = 2 ] || sleep 600"
    job_id = cluster.submit(dummy(), shell(script, rerunnable=True), dummy())
    wait_for(begun)

    kill_job_process(cluster, job_id)

    assert cluster.wait(job_id) == ["success"]
    assert begun.read_text().split() == ["1", "2"]
    job = read_job(cluster, job_id)
    assert [(each.number, each.is_lost) for each in tries_of(job.ops[1])] == [(1, True)]
    (line,) = [line.message for line in job.ops[1].log]
    assert line == "try 1 of 2 was lost with the process of its job, and is not counted; it is run again"


def test_a_command_that_outlives_the_process_of_its_job_is_not_run_again_beside_itself(cluster: Cluster) -> None:
    """Its supervisor holds the job's livelock until nothing of it lives."""
    ran, gate = cluster.root / "ran-beside", cluster.root / "gate-beside"
    script = (
        f"echo $GANTRY_TRY begins >> {ran}; until [ -e {gate} ]; do sleep 0.02; done; echo $GANTRY_TRY ends >> {ran}"
    )
    job_id = cluster.submit(shell(script, rerunnable=True))
    wait_for(ran)

    os.kill(process_of(cluster, job_id), signal.SIGKILL)
    other = cluster.submit(dummy())
    cluster.wait(other)
    assert cluster.status(job_id) == "running"
    gate.touch()

    assert cluster.wait(job_id) == ["success"]
    assert ran.read_text().splitlines() == ["1 begins", "1 ends", "2 begins", "2 ends"]


def test_a_kill_during_a_try_ends_the_job(cluster: Cluster) -> None:
    begun = cluster.root / "begun-killed"
    job_id = cluster.submit(shell(f"echo x >> {begun}; sleep 600", retries=3, rerunnable=True))
    wait_for(begun)

    cluster.luxi(CancelJob(job_id, kill=True))

    assert cluster.wait(job_id) == ["canceled"]
    assert begun.read_text() == "x\n"


def wait_failed(cluster: Cluster, job_id: int, count: int = 1) -> Job:
    wait_until(lambda: len(cluster.job(job_id, "tries")[0][0]) == count, what=f"luxid knows {count} failed tries")
    # of this job: another test may have left one
    wait_until(lambda: not is_alive(read_job(cluster, job_id).livelock or ""), what="its process has ended")
    return read_job(cluster, job_id)


def test_in_the_pause_a_job_has_no_lock_and_no_slot_and_can_be_canceled(cluster: Cluster) -> None:
    lock = {"locks": {"node/n1": "exclusive"}}
    paused = [cluster.submit(shell("exit 1", retries=1, retry_delay=600, **lock)) for _ in range(4)]
    for job_id in paused:
        wait_failed(cluster, job_id)

    # as many as may run at once
    others = [cluster.submit(shell("true", **lock)) for _ in range(4)]
    assert cluster.wait(*others) == ["success"] * 4
    follower = cluster.submit(shell("true", depends=after(paused[0], wanted=("canceled",))))
    for job_id in paused:
        assert cluster.status(job_id) == "queued"
        cluster.luxi(CancelJob(job_id))

    assert cluster.wait(*paused) == ["canceled"] * 4
    assert cluster.wait(follower) == ["success"]
    assert output_of(cluster, paused[0], 1) == ""


def test_a_kill_of_luxid_in_the_pause_neither_shortens_it_nor_costs_a_try(cluster: Cluster) -> None:
    stamps = cluster.root / "stamps-of-tries"
    job_id = cluster.submit(shell(f"date +%s.%N >> {stamps}; [ $GANTRY_TRY = 2 ]", retries=1, retry_delay=1.5))
    (failed,) = tries_of(wait_failed(cluster, job_id).ops[0])

    cluster.restart("luxid")

    assert cluster.wait(job_id) == ["success"]
    _, second = map(float, stamps.read_text().split())
    assert second >= failed.next_at


def test_tries_that_a_client_names_are_left_out(cluster: Cluster) -> None:
    """The opcodes of another job, as 'gnt-job info' tells them, may be submitted again."""
    forged = Try(1, 1.0, 2.0, "ended with exit code 75", 75, 4e9, 0)
    job_id = cluster.submit(dummy(reason=[try_entry(forged).to_wire()]))

    assert cluster.wait(job_id) == ["success"]
    assert tries_of(read_job(cluster, job_id).ops[0]) == ()
