"""SIGKILL in each gap between two tries of a command: none is lost, and none runs twice (DESIGN sections 3, 16)."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from common.queue.jobs import JobState
from common.queue.reasons import tries_of
from common.system.processes import find_process, is_living
from tests.support.checked import assert_all_is_free, job_on_disk
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until


def twice(ran: Path, **fields: Any) -> dict[str, Any]:
    """A command whose first try fails, and whose second one succeeds; each tells its number."""
    script = f"echo $GANTRY_TRY >> {ran}; [ $GANTRY_TRY != 1 ] || exit 75"
    op = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script], "retries": 1, "retry_delay": 0}
    return {**op, "locks": {"node/n1": "exclusive"}, **fields}


def tries_on_disk(cluster: Cluster, job_id: int) -> int:
    return len(tries_of(job_on_disk(cluster, job_id).ops[0]))


@pytest.mark.parametrize("victim", ["job process", "luxid", "both"])
def test_a_kill_between_the_write_of_a_try_and_the_end_of_its_process_costs_no_try(
    cluster: Cluster, victim: str
) -> None:
    """A stopped wconfd keeps the process there: it waits until its locks are free."""
    ran, gate = cluster.root / "ran", cluster.root / "gate"
    op = twice(ran)
    op["argv"][2] = f"until [ -e {gate} ]; do sleep 0.01; done; {op['argv'][2]}"
    job_id = cluster.submit(op)
    wait_until(lambda: job_on_disk(cluster, job_id).state is JobState.RUNNING, what="it runs")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid
    stop(cluster.daemons["wconfd"].pid)
    gate.touch()
    wait_until(lambda: tries_on_disk(cluster, job_id) == 1, what="the failed try is on disk")

    if victim != "luxid":
        os.kill(pid, signal.SIGKILL)
    if victim != "job process":
        cluster.kill("luxid")
    cluster.daemons["wconfd"].send_signal(signal.SIGCONT)
    if victim != "job process":
        cluster.start("luxid")

    assert cluster.wait(job_id) == ["success"]
    assert ran.read_text().split() == ["1", "2"]
    assert_all_is_free(cluster)


@pytest.mark.parametrize("is_rerunnable", [False, True])
def test_a_kill_between_the_end_of_a_command_and_the_write_of_its_try_leaves_a_lost_try(
    cluster: Cluster, *, is_rerunnable: bool
) -> None:
    """A process that the program has left keeps the job's process there: it waits for its end."""
    ran, gate = cluster.root / "ran", cluster.root / "gate"
    op = twice(ran, keep_locks=True, rerunnable=is_rerunnable)
    op["argv"][2] = f"(until [ -e {gate} ]; do sleep 0.01; done) & {op['argv'][2]}"
    job_id = cluster.submit(op)
    log = cluster.paths.job_log(job_id)
    wait_until(lambda: log.exists() and b"waiting for processes" in log.read_bytes(), what="the program has ended")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid
    process = find_process(pid)
    assert process

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_living(process), what="it is dead")
    # something of the try lives
    assert job_on_disk(cluster, job_id).state is JobState.RUNNING
    gate.touch()

    assert cluster.wait(job_id) == ["success" if is_rerunnable else "error"]
    assert ran.read_text().split() == (["1", "2"] if is_rerunnable else ["1"])
    assert_all_is_free(cluster)


def test_everything_killed_during_a_rerunnable_try_lets_it_run_again(cluster: Cluster) -> None:
    ran = cluster.root / "ran"
    op = twice(ran, rerunnable=True)
    op["argv"][2] = f"echo $GANTRY_TRY >> {ran}; [ $GANTRY_TRY != 1 ] || sleep 600"
    job_id = cluster.submit(op)
    wait_until(lambda: ran.exists() and ran.read_text(), what="it runs")

    cluster.crash()
    cluster.start()

    assert cluster.wait(job_id) == ["success"]
    assert ran.read_text().split() == ["1", "2"]
    assert [each.is_lost for each in tries_of(job_on_disk(cluster, job_id).ops[0])] == [True]
    assert_all_is_free(cluster)
