"""The queue of a master that serves: its own node daemon changes nothing of it, whoever asks (DESIGN 11)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.system.running import find_daemon
from tests.support.machines.fleet import queue_files
from tests.support.machines.nodes import NAME, Node
from tests.support.stopping import stop
from tests.support.wait import wait_until

DUMMY = {"OP_ID": "OP_TEST_DUMMY"}
JOB = '{"id":1}'


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Node]:
    """The master of a cluster; its caller has the certificate of a candidate."""
    with Node(tmp_path) as node:
        config, ssconf = node.paths.config_data, node.paths.ssconf_file("master_node")
        config.write_text(config.read_text().replace("node1.test", NAME))
        ssconf.unlink()
        ssconf.write_text(f"{NAME}\n")
        node.cluster.start("noded", "wconfd", "forkserver", "luxid")
        yield node
        node.cluster.crash()


def changes(node: Node) -> dict[str, object]:
    """A call of each kind that changes the queue, or what lies beside it."""
    archived = node.name(node.paths.archived_job_file(1))
    return {
        "jobqueue_update": [node.job_name(1), [0, JOB]],
        "jobqueue_rename": [[[node.job_name(1), archived]]],
        "jobqueue_purge": [],
        "jobqueue_set_drain_flag": [True],
        "gantry_write_files": [[["queue/job-1", [0, JOB]]]],
        "gantry_remove_files": [["queue/job-1"], True],
    }


def test_a_candidate_cannot_change_the_queue_of_the_master_that_serves(master: Node) -> None:
    job_id = master.cluster.submit(DUMMY)
    master.cluster.wait(job_id)
    before = queue_files(master.paths)

    for procedure, arguments in changes(master).items():
        is_done, text = master.call(procedure, arguments)
        assert not is_done, procedure
        assert "the queue daemon runs on this node" in text

    assert queue_files(master.paths) == before
    assert master.cluster.submit(DUMMY) == job_id + 1


def test_the_queue_of_a_master_that_has_ended_is_a_copy_again(master: Node) -> None:
    job_id = master.cluster.submit(DUMMY)
    master.cluster.wait(job_id)
    master.cluster.kill("luxid")

    assert master.call("jobqueue_update", [master.job_name(job_id), [0, JOB]]) == [True, None]
    assert master.paths.job_file(job_id).read_text() == JOB


def test_a_new_master_changes_nothing_before_the_old_ones_queue_daemon_has_ended(master: Node) -> None:
    job_id = master.cluster.submit(DUMMY)
    master.cluster.wait(job_id)
    before = queue_files(master.paths)
    luxid = find_daemon(master.paths, "luxid")
    assert luxid is not None
    # it hangs, and does not hear that it is to end
    stop(luxid.pid)

    assert master.call("gantry_claim_epoch", [1, "node9.test"]) == [True, None]
    for procedure, arguments in changes(master).items():
        assert not master.call(procedure, arguments, epoch=1)[0], procedure
    assert queue_files(master.paths) == before

    os.kill(luxid.pid, signal.SIGCONT)
    wait_until(lambda: not find_daemon(master.paths, "luxid"), what="the old luxid has ended")
    assert master.call("jobqueue_update", [master.job_name(job_id), [0, JOB]], epoch=1) == [True, None]
