"""A node that is silent when its command is to begin is waited for, and `why` tells it (DESIGN 13)."""

import socket
import time

from common.ids import JobId
from common.queue.explanation import SilentNode
from protocol.luxi.jobs import CancelJob
from protocol.luxi.why import ExplainJobs
from protocol.wconfd.locks import ListOrphanedLocks
from tests.cli.command import run
from tests.daemon.jobproc.nodecommands.jobs import locks_of
from tests.daemon.luxid.ops import command
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


def silent_node(fleet: Fleet, job_id: JobId) -> SilentNode | None:
    (reasons,) = fleet.master.luxi(ExplainJobs((job_id,)))
    return next((reason for reason in reasons or () if isinstance(reason, SilentNode)), None)


def test_a_command_waits_for_a_node_that_is_silent_at_its_start(fleet: Fleet, node: FleetNode) -> None:
    node.kill()
    began = time.time()
    job_id = fleet.master.submit(command("true", node=node.name))
    wait_until(lambda: silent_node(fleet, job_id) is not None, what="why tells of the silent node")

    found = silent_node(fleet, job_id)
    assert found is not None
    assert (found.node, found.may_run) == (node.name, False)
    assert found.since >= began - 1
    assert found.until is not None
    assert abs(found.until - found.since - 300.0) < 1.0
    told = run("gnt-job", "--root", fleet.master.root, "why", job_id).out
    assert f"waits for node '{node.name}', which has not answered for" in told
    assert "nothing holds it" not in told
    # its file says running, so that nothing runs twice
    assert fleet.master.status(job_id) == "waiting"
    (listed,) = run("gnt-job", "--root", fleet.master.root, "list", "--waiting", "-o", "id", "--no-headers").out.split()
    assert listed == str(job_id)

    node.start()
    assert fleet.master.wait(job_id) == ["success"]
    assert fleet.master.status(job_id) == "success"
    assert silent_node(fleet, job_id) is None
    assert not fleet.master.paths.silence_note(job_id).exists()


def test_a_command_that_has_not_begun_fails_when_the_time_for_its_node_is_over(
    impatient: Fleet, node: FleetNode
) -> None:
    node.kill()
    try:
        job_id = impatient.master.submit(command("true", node=node.name))
        impatient.master.wait(job_id)
        status, result = impatient.master.job(job_id, "status", "opresult")
        assert status == "error"
        assert "'true' was not started" in str(result)
        assert not impatient.master.paths.silence_note(job_id).exists()
    finally:
        node.start()


def test_a_command_that_was_not_sent_to_a_silent_node_keeps_no_lock_when_its_job_is_killed(
    fleet: Fleet, node: FleetNode
) -> None:
    node.kill()
    try:
        with socket.create_server(node.place) as mute:
            job_id = fleet.master.submit(command("true", node=node.name))
            # it is killed while it waits for the answer to its first bytes, which are no request
            peer, _ = mute.accept()
            with peer:
                assert locks_of(fleet, job_id) != []
                fleet.master.luxi(CancelJob(job_id, kill=True))
                assert fleet.master.wait(job_id) == ["canceled"]

        assert fleet.master.status(job_id) == "canceled"
        assert fleet.master.wconf(ListOrphanedLocks()) == ()
        wait_until(lambda: locks_of(fleet, job_id) == [], what="its locks are free")
    finally:
        node.start()
