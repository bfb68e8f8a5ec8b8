"""Secret parameters are in no file; they reach the job process by luxid's memory (luxid.md 3.1, 9.1)."""

import subprocess

from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import after, delay, dummy, process_of, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

SECRET = "hunter2"


def with_secret(**fields: object) -> dict[str, object]:
    return {"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": {"pw": SECRET}, **fields}


def files_with_the_secret(cluster: Cluster) -> list[str]:
    found = subprocess.run(["grep", "-rl", SECRET, str(cluster.root)], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_a_secret_reaches_the_opcode_and_no_file(cluster: Cluster) -> None:
    head = cluster.submit(delay(60))
    cluster.wait(head, status="running")
    job_id = cluster.submit(dummy(), with_secret(depends=after(head, wanted=("canceled", "error"))))
    # the first opcode waits for its locks, too, before it runs
    under_way = (["success", "waiting"],)
    wait_until(lambda: cluster.job(job_id, "opstatus") == under_way, what="the second opcode waits")

    assert files_with_the_secret(cluster) == []
    assert read_job(cluster, job_id).ops[1].input["osparams_secret"] == {"pw": "<redacted>"}
    assert SECRET not in str(cluster.luxi(QueryJobs((job_id,), ("ops",))))

    cluster.kill_group(process_of(cluster, head))
    # by a second process: the first one ended before the opcode that had to wait
    assert cluster.wait(job_id) == ["success"]
    assert f"secret parameters: {{'pw': '{SECRET}'}}" in str(cluster.job(job_id, "oplog"))


def test_secrets_are_lost_with_luxid_and_the_job_says_so(cluster: Cluster) -> None:
    cluster.kill("forkserver")
    job_id = cluster.submit(with_secret())
    cluster.restart("luxid")
    cluster.start("forkserver")

    assert cluster.wait(job_id) == ["error"]
    ((result,),) = cluster.job(job_id, "opresult")
    assert result[0] == "OpPrereqError"
    assert "secret parameters are lost" in result[1][0]


def test_an_opcode_without_its_secret_is_no_different(cluster: Cluster) -> None:
    job_id = cluster.submit({"OP_ID": "OP_TEST_OS_PARAMS"})

    assert cluster.wait(job_id) == ["error"]
    assert cluster.job(job_id, "opresult") == ([["OpExecError", ["there are no secret parameters"]]],)
