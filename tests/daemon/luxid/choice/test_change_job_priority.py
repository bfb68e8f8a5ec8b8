"""ChangeJobPriority (luxid.md 2.5)."""

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import CancelJob, ChangeJobPriority
from protocol.wconfd.locks import ListLocksWaitingStatus
from tests.daemon.luxid.ops import after, command, delay, dummy, process_of, read_job
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until


def test_a_queued_job_gets_the_number_on_disk_and_its_input_keeps_the_old(cluster: Cluster) -> None:
    first = cluster.submit(delay(60))
    job_id = cluster.submit(dummy(depends=after(first)), dummy())

    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is True

    assert cluster.job(job_id, "priority", "oppriority") == (-10, [-10, -10])
    ops = read_job(cluster, job_id).ops
    assert [(op.priority, op.input["priority"]) for op in ops] == [(-10, 0), (-10, 0)]


def test_the_order_of_starts_follows(cluster: Cluster) -> None:
    running = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*running, status="running")
    slow, urgent = cluster.submit(delay(60)), cluster.submit(delay(60))

    cluster.luxi(ChangeJobPriority(urgent, -10))
    cluster.luxi(CancelJob(running[0], kill=True))

    cluster.wait(urgent, status="running")
    assert cluster.status(slow) == "queued"


def test_a_job_that_waits_for_locks_is_told(cluster: Cluster) -> None:
    locks = {"node/n1": "exclusive"}
    cluster.wait(cluster.submit(command("sleep", "60", locks=locks)), status="running")
    job_id = cluster.submit(command("true", locks=locks))
    cluster.wait(job_id, status="waiting")

    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is True

    wait_until(lambda: cluster.job(job_id, "priority") == (-10,), what="the process took the priority")


def test_a_job_that_waits_for_locks_moves_ahead_of_another(cluster: Cluster) -> None:
    order = cluster.root / "order"
    locks = {"node/n1": "exclusive"}
    blocker = cluster.submit(command("sleep", "60", locks=locks))
    cluster.wait(blocker, status="running")
    early = cluster.submit(command("sh", "-c", f"echo early >> {order}", locks=locks))
    cluster.wait(early, status="waiting")
    late = cluster.submit(command("sh", "-c", f"echo late >> {order}", locks=locks))
    cluster.wait(late, status="waiting")

    assert cluster.luxi(ChangeJobPriority(late, -10)).is_done is True
    wait_until(lambda: cluster.job(late, "priority") == (-10,), what="the process took the priority")
    wait_until(lambda: -10 in pending_priorities(cluster), what="its request is made anew")
    cluster.luxi(CancelJob(blocker, kill=True))

    assert cluster.wait(early, late) == ["success", "success"]
    assert order.read_text().split() == ["late", "early"]


def pending_priorities(cluster: Cluster) -> list[int]:
    """Those of the requests that wait for locks, as wconfd tells."""
    return [each.priority for each in cluster.wconf(ListLocksWaitingStatus()).pending]


@pytest.mark.parametrize("priority", [5, -20, 9999])
def test_a_number_that_is_no_priority_is_refused(cluster: Cluster, priority: int) -> None:
    with pytest.raises(RemoteError, match="priority must be"):
        cluster.luxi(ChangeJobPriority(JobId(1), priority))


def test_a_final_job_has_no_priority_to_change(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy())
    cluster.wait(job_id)

    assert cluster.luxi(ChangeJobPriority(job_id, 10)).is_done is False


def messages(cluster: Cluster) -> list[str]:
    return sorted(path.name for path in cluster.paths.messages.iterdir())


@pytest.mark.parametrize("is_rerunnable", [True, False])
def test_a_number_that_the_process_did_not_live_to_hear_of_is_the_jobs(
    cluster: Cluster, *, is_rerunnable: bool
) -> None:
    job_id = cluster.submit(command("sleep", "60", rerunnable=is_rerunnable))
    cluster.wait(job_id, status="running")
    pid = process_of(cluster, job_id)
    stop(pid)

    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is True
    assert messages(cluster) == [f"{job_id}.prio"]
    cluster.kill_group(pid)

    if is_rerunnable:
        wait_until(lambda: read_job(cluster, job_id).priority == -10, what="the job has the priority")
    else:
        assert cluster.wait(job_id) == ["error"]
    wait_until(lambda: messages(cluster) == [], what="the message is removed", state=lambda: messages(cluster))


def test_a_number_that_cannot_be_read_holds_the_job_until_it_can(cluster: Cluster) -> None:
    job_id = cluster.submit(command("sleep", "60", rerunnable=True))
    cluster.wait(job_id, status="running")
    pid = process_of(cluster, job_id)
    stop(pid)
    assert cluster.luxi(ChangeJobPriority(job_id, -10)).is_done is True
    message = cluster.paths.priority_message(job_id)
    message.unlink()
    message.mkdir()

    cluster.kill_group(pid)
    wait_until(lambda: f"job.unreadable job={job_id}" in cluster.log("luxid"), what="luxid says that it cannot read")
    assert read_job(cluster, job_id).priority == 0
    message.rmdir()
    message.write_text("-10")

    wait_until(lambda: read_job(cluster, job_id).priority == -10, what="the job has the priority")


def test_a_number_that_was_left_while_no_luxid_ran_is_the_jobs(cluster: Cluster) -> None:
    ended = cluster.submit(dummy())
    cluster.wait(ended)
    running = cluster.submit_many(*[(delay(60),)] * 4)
    cluster.wait(*running, status="running")
    queued = cluster.submit(dummy(), dummy())
    cluster.kill("luxid")
    for job_id in (ended, queued):
        cluster.paths.priority_message(job_id).write_text("-10")

    cluster.start("luxid")

    wait_until(lambda: cluster.job(queued, "priority") == (-10,), what="the job has the priority")
    assert [op.priority for op in read_job(cluster, queued).ops] == [-10, -10]
    wait_until(lambda: messages(cluster) == [], what="the messages are removed", state=lambda: messages(cluster))


def test_a_message_that_cannot_be_left_is_a_refusal(cluster: Cluster) -> None:
    job_id = cluster.submit(delay(60))
    cluster.wait(job_id, status="running")
    folder = cluster.paths.messages
    folder.rename(folder.with_name("away"))

    done, text = cluster.luxi_wire(ChangeJobPriority(job_id, -10))

    folder.with_name("away").rename(folder)
    assert done is False
    assert text == f"job {job_id} cannot be sent its new priority: no such file or directory; try again"
    assert "Traceback" not in cluster.log("luxid")
