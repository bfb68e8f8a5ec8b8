"""Jobs live on while luxid is away; when the machine dies what ran is in error, and the rest goes on.

Source: DESIGN section 6, "Restart"; luxid.md 5.8-5.10.
"""

import shutil
import signal

import pytest

from protocol.luxi.queries import QueryJobs
from tests.support.checked import assert_all_is_free, checked_cluster, job_on_disk
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps
from tests.support.wait import wait_until

AFTER_ANY_END = [[-1, ["success", "error"]]]


def test_jobs_that_end_while_luxid_is_stopped_are_seen_and_release_those_that_wait(
    cluster: Cluster, stamps: Stamps
) -> None:
    good, bad, behind = cluster.submit_many(
        (stamps.gated("gate"),), (stamps.work(exit_code=1),), (stamps.work(depends=AFTER_ANY_END),)
    )
    waiting = cluster.submit(stamps.work(depends=[[good, ["success"]]]))
    cluster.wait(good, status="running")
    cluster.wait(bad, behind)
    cluster.kill("luxid", signal.SIGTERM)

    stamps.open_gate("gate")
    wait_until(lambda: job_on_disk(cluster, good).is_final, what="the job ends without luxid")
    ended_at = job_on_disk(cluster, good).end_at
    cluster.start("luxid")

    assert cluster.job(good, "status", "end_ts") == ("success", list(ended_at or ()))
    assert cluster.wait(bad, behind, waiting) == ["error", "success", "success"]
    stamps.assert_in_order(good, waiting)
    stamps.assert_nothing_ran_twice()
    assert_all_is_free(cluster)


def test_a_job_that_runs_on_through_a_restart_is_followed_to_its_end(cluster: Cluster, stamps: Stamps) -> None:
    job_id = cluster.submit(stamps.gated("gate"))
    cluster.wait(job_id, status="running")

    cluster.restart("luxid", signal.SIGTERM)

    assert cluster.status(job_id) == "running"
    stamps.open_gate("gate")
    assert cluster.wait(job_id) == ["success"]
    stamps.assert_nothing_ran_twice()


def test_a_process_that_dies_while_luxid_is_away_leaves_its_job_in_error(cluster: Cluster, stamps: Stamps) -> None:
    job_id = cluster.submit(stamps.gated("gate"), stamps.work())
    cluster.wait(job_id, status="running")
    cluster.kill("luxid")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid

    cluster.kill_group(pid)
    cluster.start("luxid")

    assert cluster.wait(job_id) == ["error"]
    assert "died" in cluster.job(job_id, "opresult")[0][0]
    assert stamps.runs(job_id, 1) == []
    assert_all_is_free(cluster)


@pytest.mark.parametrize("is_run_folder_emptied", [False, True])
def test_a_crash_of_the_machine_ends_what_ran_and_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, stamps: Stamps, is_run_folder_emptied: bool
) -> None:
    root = tmp_path_factory.mktemp("crash") / "root"
    slots = "[luxid]\nsweep_s = 3600\nmax_running_jobs = 3\n[wconfd]\nsweep_s = 3600\n"
    with checked_cluster(root, settings=slots) as cluster:
        cluster.start()
        locked = {"node/n1": "exclusive"}
        running = cluster.submit_many(*[(stamps.gated("never", locks=locked), stamps.work())] * 1)
        running += cluster.submit_many(*[(stamps.gated("never"),)] * 2)
        # a job runs a moment before its command does
        wait_until(lambda: all(map(stamps.runs, running)), what="their commands run", state=stamps.lines)
        queued = cluster.submit_many(*[(stamps.work(locks=locked),)] * 4)
        behind = cluster.submit(stamps.work(depends=[[running[0], ["error"]]]))
        doomed = cluster.submit(stamps.work(depends=[[running[0], ["success"]]]))
        known = [*running, *queued, behind, doomed]

        cluster.crash()
        if is_run_folder_emptied:
            shutil.rmtree(cluster.paths.run)
        cluster.start()

        assert cluster.wait(*running) == ["error"] * 3
        for job_id in running:
            assert f"the process of job {job_id} died" in str(cluster.job(job_id, "opresult"))
            assert stamps.run(job_id).end is None
        assert cluster.wait(*queued, behind) == ["success"] * 5
        assert cluster.wait(doomed) == ["error"]
        assert cluster.submit(stamps.work()) == max(known) + 1
        assert [row[0] for row in cluster.luxi(QueryJobs(None, ("id",)))] == [*known, max(known) + 1]
        stamps.assert_nothing_ran_twice()
        stamps.assert_never_together(queued)
        cluster.wait(max(known) + 1)
        assert_all_is_free(cluster)


def test_a_crash_while_twenty_jobs_run_leaves_each_final_once(cluster: Cluster, stamps: Stamps) -> None:
    jobs = cluster.submit_many(*[(stamps.work(seconds=0.05, locks={"node/n1": "shared"}), stamps.work())] * 20)
    wait_until(lambda: len(stamps.lines()) > 10, what="some have begun", state=stamps.lines)

    cluster.crash()
    # livelocks of processes that died before they asked for a lock are nobody's: only wconfd's sweep removes them
    cluster.configure("[luxid]\nsweep_s = 3600\n[wconfd]\nsweep_s = 0.1\nlivelock_grace_s = 0\n")
    cluster.start()

    states = cluster.wait(*jobs)
    assert set(states) <= {"success", "error"}
    stamps.assert_nothing_ran_twice()
    for job_id, state in zip(jobs, states, strict=True):
        is_whole = all(run.end is not None for opcode in (0, 1) for run in stamps.runs(job_id, opcode))
        assert state == "error" or (is_whole and stamps.run(job_id, 1)), f"job {job_id}: {stamps.lines()}"
    assert_all_is_free(cluster)
