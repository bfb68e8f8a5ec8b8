"""SubmitJob: taking one job in, durably, and carrying it out."""

from typing import Any

import orjson
import pytest

from common.errors import RemoteError
from protocol.luxi.jobs import SubmitJob, SubmitJobToDrainedQueue
from protocol.luxi.queue import SetDrainFlag
from tests.daemon.luxid.ops import delay, dummy
from tests.support.cluster import Cluster


def test_a_job_is_on_disk_when_its_id_is_answered(cluster: Cluster) -> None:
    cluster.luxi(SetDrainFlag(True))
    job_id = cluster.luxi(SubmitJobToDrainedQueue((delay(60),)))

    content = orjson.loads(cluster.paths.job_file(job_id).read_bytes())

    assert content["id"] == job_id == 1
    assert cluster.paths.serial_file.read_text() == "1\n"


def test_a_submitted_job_runs_to_its_end(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(result="done"))

    assert cluster.wait(job_id) == ["success"]
    assert cluster.job(job_id, "opresult") == (["done"],)


def test_opcodes_of_a_job_run_in_order_and_a_failure_stops_the_rest(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(), dummy(fail="broken"), dummy())

    assert cluster.wait(job_id) == ["error"]
    assert cluster.job(job_id, "opstatus") == (["success", "error", "error"],)


def test_the_input_is_normal_and_its_reason_trail_names_the_job(cluster: Cluster) -> None:
    """luxid.md 2.3, step 4."""
    job_id = cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": [["gnt:user", "why not", 1]]})

    (ops,) = cluster.job(job_id, "ops")

    user, own = ops[0]["reason"]
    assert user == ["gnt:user", "why not", 1]
    assert own[:2] == ["gnt:opcode:test_delay", f"job={job_id};index=0"]
    assert ops[0]["depends"] is None
    assert ops[0]["priority"] == 0


@pytest.mark.parametrize(
    ("ops", "text"),
    [
        ([], "at least one opcode"),
        ([{"OP_ID": "OP_NOBODY_KNOWS"}], "opcode 1: unknown opcode 'OP_NOBODY_KNOWS'"),
        ([{"OP_ID": "OP_TEST_DUMMY"}, {"OP_ID": "OP_TEST_DELAY", "duration": "x"}], "opcode 2: .*expected number"),
        ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "priority": 5}], "priority must be"),
        ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "depends": [[-1, []]]}], "points before the submission"),
        ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "depends": [[1, []]]}], "^there is no job 1 to depend on$"),
        ([{"OP_ID": "OP_TEST_DELAY", "duration": 1, "depends": [[0, []]]}], "^there is no job 0 to depend on$"),
        (
            [{"OP_ID": "OP_TEST_DUMMY"}, {"OP_ID": "OP_TEST_DUMMY", "depends": [[9, []]]}],
            "^opcode 2: there is no job 9 to depend on$",
        ),
    ],
)
def test_a_bad_submission_is_refused_before_an_id_is_spent(
    cluster: Cluster, ops: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(RemoteError, match=text):
        cluster.luxi(SubmitJob(tuple(ops)))

    assert cluster.submit(dummy()) == 1


def test_a_drained_queue_takes_no_jobs_but_privileged_ones(cluster: Cluster) -> None:
    cluster.luxi(SetDrainFlag(True))

    with pytest.raises(RemoteError, match="drained") as caught:
        cluster.submit(dummy())

    assert caught.value.wire_name == "GenericError"
    assert cluster.wait(cluster.luxi(SubmitJobToDrainedQueue((dummy(),)))) == ["success"]


def test_a_failed_write_leaves_no_job_and_its_id_is_not_used_again(cluster: Cluster) -> None:
    before = cluster.submit(dummy())
    cluster.wait(before)
    aside = cluster.paths.data / "aside"
    cluster.paths.queue.rename(aside)

    with pytest.raises(RemoteError, match="cannot be written") as caught:
        cluster.submit(dummy())
    aside.rename(cluster.paths.queue)
    after = cluster.submit(dummy())

    assert caught.value.code == "unavailable"
    assert after == before + 2
    assert not cluster.paths.job_file(before + 1).exists()


def test_a_full_queue_takes_no_more_jobs(idle: Cluster) -> None:
    (idle.root / "gantry.toml").write_text("[luxid]\nmax_queued_jobs = 2\n")
    idle.start("luxid")
    idle.submit(dummy())
    idle.submit(dummy())

    with pytest.raises(RemoteError) as caught:
        idle.submit(dummy())

    assert caught.value.wire_name == "JobQueueFull"
