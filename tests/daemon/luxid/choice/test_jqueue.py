"""What Ganeti's `gnt-debug test-jobqueue` expects of a server (cli.md 4; opcodes.md 7)."""

import itertools
import socket
from typing import Any

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import CancelJob, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import WaitForJobChange
from tests.daemon.luxid.ops import delay, read_job
from tests.support.cluster import Cluster

EXPECTED_STATUS = {"expandnames": "waiting", "exec": "running", "startmsg": "running", "logmsg": "running"}


def jqueue(**fields: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_JQUEUE", "notify_waitlock": True, "notify_exec": True, **fields}


def follow(cluster: Cluster, job_id: int) -> tuple[list[str], list[str]]:
    """Do as the client: connect to each socket, and look at the status; the messages, and the steps told of."""
    messages: list[str] = []
    steps: list[str] = []
    values, serial = None, None
    while True:
        values, entries = cluster.luxi_wire(WaitForJobChange(JobId(job_id), ("status",), values, serial, 20))
        for entry in entries:
            serial, _, kind, message = entry
            if kind == "message":
                messages.append(message)
                continue
            assert kind == "jqueue-test"
            path, what, argument = message
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                assert cluster.status(job_id) == EXPECTED_STATUS[what]
            steps.append(what if argument is None else f"{what} {argument}")
        if not entries and values[0] in ("success", "error", "canceled"):
            return messages, steps


@pytest.mark.parametrize(
    ("ops", "states"),
    [
        ([{}], ["success"]),
        ([{}, {}], ["success", "success"]),
        ([{"fail": True}], ["error"]),
        ([{}, {}, {"fail": True}, {}], ["success", "success", "error", "error"]),
    ],
)
def test_each_message_arrives_once_in_order_and_each_step_in_its_status(
    cluster: Cluster, ops: list[dict[str, Any]], states: list[str]
) -> None:
    job_id = cluster.submit(*[jqueue(log_messages=[f"{index} a", f"{index} b"], **op) for index, op in enumerate(ops)])

    messages, steps = follow(cluster, job_id)

    begun = range(states.index("error") + 1 if "error" in states else len(states))
    assert messages == [f"TESTMSG={index} {text}" for index in begun for text in "ab"]
    assert steps == ["expandnames", "exec", "startmsg 2", "logmsg 1", "logmsg 2"] * len(begun)
    assert cluster.job(job_id, "opstatus") == (states,)


def test_a_job_whose_client_stays_away_can_be_canceled(cluster: Cluster) -> None:
    job_id = cluster.submit(jqueue())
    cluster.wait(job_id, status="waiting")

    assert cluster.luxi(CancelJob(job_id)).is_done is True

    assert cluster.status(job_id) == "canceled"


def test_a_null_status_list_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RemoteError):
        cluster.submit(delay(1, depends=[[-1, None]]))


def test_a_wrong_priority_anywhere_fails_the_whole_submission(cluster: Cluster) -> None:
    for priority, place in itertools.product([-20, -11, -9, -1, 1, 9, 11, 19], range(3)):
        ops = [delay(0.1), delay(0.1), delay(0.1)]
        ops[place]["priority"] = priority

        with pytest.raises(RemoteError, match="priority must be"):
            cluster.luxi(SubmitJob(tuple(ops)))
        with pytest.raises(RemoteError, match="priority must be"):
            cluster.luxi_wire(SubmitManyJobs(((delay(0.1),), tuple(ops))))

    assert cluster.paths.serial_file.read_text() == "0\n"


def test_relative_dependencies_show_as_ids_and_order_the_starts(cluster: Cluster) -> None:
    wanted = ["success"]
    ids = cluster.submit_many(
        (delay(0.1),),
        (delay(0.1, depends=[[-1, wanted]]),),
        (delay(0.1, depends=[[-2, wanted]]),),
        (delay(0.1),),
        (delay(0.1, depends=[[-2, wanted]]),),
    )

    assert cluster.wait(*ids) == ["success"] * 5
    jobs = [read_job(cluster, job_id) for job_id in ids]
    depends = [job.ops[0].input["depends"] for job in jobs]
    assert depends == [None, [[ids[0], wanted]], [[ids[0], wanted]], None, [[ids[2], wanted]]]
    began = [job.ops[0].exec_at or (0, 0) for job in jobs]
    assert began[0] <= min(began[1], began[2])
    assert began[2] <= began[4]
