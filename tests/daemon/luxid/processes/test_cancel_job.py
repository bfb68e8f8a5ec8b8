"""CancelJob, wherever the job stands (luxid.md 2.4; DESIGN section 7)."""

import os
import re

import pytest

from common.ids import JobId
from common.system.livelock import is_alive
from protocol.luxi.jobs import CancelJob
from tests.daemon.luxid.ops import after, command, delay, dummy, process_of, read_job
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until


def fill_slots(cluster: Cluster) -> list[JobId]:
    job_ids = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*job_ids, status="running")
    return job_ids


def test_a_queued_job_is_canceled_on_disk_and_never_runs(cluster: Cluster) -> None:
    fill_slots(cluster)
    job_id = cluster.submit(dummy(), dummy())

    done, _ = cluster.luxi_wire(CancelJob(job_id))

    assert done is True
    assert cluster.job(job_id, "opstatus", "opresult", "start_ts") == (["canceled"] * 2, [None, None], None)
    assert cluster.job(job_id, "end_ts") != (None,)


def test_a_running_job_is_told_and_the_answer_says_that_it_runs(cluster: Cluster) -> None:
    begun = cluster.root / "begun"
    job_id = cluster.submit(command("sh", "-c", f"touch {begun}; sleep 60"), dummy())
    # *running* is on disk before the command exists
    wait_until(begun.exists, what="the command has begun")
    cluster.wait(job_id, status="running")

    done, text = cluster.luxi_wire(CancelJob(job_id))

    assert done is False
    assert text.endswith(f"; use kill to end it now: gnt-job cancel --kill {job_id}")


def test_a_running_job_that_heeds_the_request_is_canceled_at_once(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60, interruptible=True), dummy())
    cluster.wait(job_id, status="running")

    cluster.luxi(CancelJob(job_id))

    assert cluster.wait(job_id) == ["canceled"]


def test_a_killed_job_ends_with_all_that_it_started(cluster: Cluster) -> None:
    job_id = cluster.submit(command("sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"))
    cluster.wait(job_id, status="running")
    livelock = read_job(cluster, job_id).livelock or ""

    done, _ = cluster.luxi_wire(CancelJob(job_id, kill=True))

    assert done is True
    assert cluster.wait(job_id) == ["canceled"]
    wait_until(lambda: not is_alive(livelock), what="nothing of the job is left")


def test_a_process_that_ignores_everything_is_killed_and_its_job_says_so(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60), dummy())
    cluster.wait(job_id, status="running")
    pid = read_job(cluster, job_id).process_id
    assert pid
    # it cannot react to TERM any more, only KILL ends it
    stop(pid)

    cluster.luxi(CancelJob(job_id, kill=True))

    assert cluster.wait(job_id) == ["canceled"]
    assert cluster.job(job_id, "opresult")[0][0] == f"job was killed on request of user {os.geteuid()}"


def test_a_final_job_cannot_be_canceled_and_the_answer_says_what_it_is(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy())
    cluster.wait(job_id)

    assert (cluster.luxi_wire(CancelJob(job_id))) == [
        False,
        f"job {job_id} is already final (success); archive it with 'gnt-job archive {job_id}'",
    ]


def test_a_job_that_does_not_exist_cannot_be_canceled(cluster: Cluster) -> None:
    assert cluster.luxi(CancelJob(JobId(7))).is_done is False


@pytest.mark.parametrize("kill", [True, False])
def test_a_job_that_waits_for_others_is_canceled(cluster: Cluster, kill: bool) -> None:
    first, second = cluster.submit_many((delay(60),), (dummy(depends=after(-1)),))
    cluster.wait(first, status="running")

    assert cluster.luxi(CancelJob(second, kill)).is_done is True
    assert cluster.status(second) == "canceled"


def test_a_job_that_waits_for_locks_gives_up(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    holder = cluster.submit(command("sleep", "60", locks=locks))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("true", locks=locks))
    cluster.wait(job_id, status="waiting")

    assert cluster.luxi(CancelJob(job_id)).is_done is True
    assert cluster.status(job_id) == "canceled"
    assert cluster.job(job_id, "opresult")[0][0] == f"job was canceled on request of user {os.geteuid()}"
    assert not cluster.paths.asker_note(job_id).exists()


def test_who_killed_a_job_that_waits_for_locks_is_told_after_a_restart_too(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    holder = cluster.submit(command("sleep", "60", locks=locks))
    cluster.wait(holder, status="running")
    job_id = cluster.submit(command("true", locks=locks))
    cluster.wait(job_id, status="waiting")
    process = process_of(cluster, job_id)
    stop(process)

    assert cluster.luxi(CancelJob(job_id, kill=True)).is_done is True
    cluster.restart("luxid")

    assert cluster.wait(job_id) == ["canceled"]
    assert cluster.job(job_id, "opresult")[0][0] == f"job was killed on request of user {os.geteuid()}"
    assert re.search(rf"job\.end_asked job={job_id} uid={os.geteuid()} kill=", cluster.log("luxid"))


def test_a_cancel_before_a_restart_leaves_no_note_when_the_job_has_ended(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    job_id = cluster.submit(command("sh", "-c", f"until [ -e {gate} ]; do sleep 0.01; done"), dummy())
    cluster.wait(job_id, status="running")
    assert cluster.luxi(CancelJob(job_id)).is_done is False
    assert cluster.paths.asker_note(job_id).exists()

    cluster.restart("luxid")
    gate.touch()

    assert cluster.wait(job_id) == ["canceled"]
    wait_until(lambda: not cluster.paths.asker_note(job_id).exists(), what="the note is gone")


def test_a_slot_that_a_kill_freed_is_used(cluster: Cluster) -> None:
    running = fill_slots(cluster)
    queued = cluster.submit(dummy())

    cluster.luxi(CancelJob(running[0], kill=True))

    assert cluster.wait(queued) == ["success"]
