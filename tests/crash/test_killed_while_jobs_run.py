"""SIGKILL of each process while twenty jobs run: nothing is lost, nothing runs twice (DESIGN section 3)."""

import os
import signal

import pytest

from tests.support.checked import assert_all_is_free, job_on_disk
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps
from tests.support.wait import wait_until
from tests.support.workload import submit_twenty


def wait_for_stamps(stamps: Stamps, count: int) -> None:
    wait_until(lambda: len(stamps.lines()) >= count, what=f"{count} stamps", state=stamps.lines)


@pytest.mark.parametrize("daemon", ["luxid", "wconfd", "forkserver"])
@pytest.mark.parametrize("moment", [1, 12])
def test_a_killed_daemon_costs_no_job_and_leaves_no_lock(
    cluster: Cluster, stamps: Stamps, daemon: str, moment: int
) -> None:
    workload = submit_twenty(cluster, stamps)
    wait_for_stamps(stamps, moment)

    cluster.restart(daemon)

    workload.assert_right(cluster)
    assert_all_is_free(cluster)


@pytest.mark.parametrize("victim", [0, 5], ids=["without locks", "with a lock"])
def test_a_killed_job_process_costs_only_its_own_job(cluster: Cluster, stamps: Stamps, victim: int) -> None:
    workload = submit_twenty(cluster, stamps, gate="gate")
    job_id = list(workload.expected)[victim]
    wait_until(lambda: job_on_disk(cluster, job_id).ops[0].start_at, what="the job has begun")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid

    os.kill(pid, signal.SIGKILL)
    stamps.open_gate("gate")

    workload.assert_right(cluster, killed=job_id)
    assert "died" in str(cluster.job(job_id, "opresult"))
    assert_all_is_free(cluster)


def test_all_daemons_killed_at_once_cost_no_job(cluster: Cluster, stamps: Stamps) -> None:
    workload = submit_twenty(cluster, stamps)
    wait_for_stamps(stamps, 6)

    for daemon in ("forkserver", "wconfd", "luxid"):
        cluster.daemons[daemon].send_signal(signal.SIGKILL)
    for daemon in ("luxid", "wconfd", "forkserver"):
        cluster.kill(daemon)
    cluster.start()

    workload.assert_right(cluster)
    assert_all_is_free(cluster)
