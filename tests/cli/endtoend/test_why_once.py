"""`gnt-job why` of jobs that wait, through a luxid that runs: nothing is said twice."""

from collections.abc import Iterator

import pytest

from tests.cli.command import normalised, run
from tests.cli.endtoend.lockwaits import wait_for_lock
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("once") / "root") as cluster:
        cluster.start("wconfd", "luxid", "forkserver")
        yield cluster


def submitted(cluster: Cluster, *words: object) -> int:
    return int(run("gnt-job", "--root", cluster.root, "run", *words).out)


def why(cluster: Cluster, job_id: int) -> list[str]:
    told = run("gnt-job", "--root", cluster.root, "why", job_id)
    assert told.code == 0, told
    # how long each step took before is the machine's business
    return [line for line in normalised(told.out).splitlines() if "before that it waited" not in line]


def test_a_wait_for_a_lock_is_told_by_one_line(cluster: Cluster) -> None:
    holder = submitted(cluster, "--lock", "node/web1", "--name", "holder", "--", "sleep", "600")
    cluster.wait(holder, status="running")
    waiter = submitted(cluster, "--lock", "node/web1", "--name", "waiter", "--", "true")
    wait_for_lock(cluster, waiter)

    assert why(cluster, waiter) == [
        f"job {waiter}: waiting for TIME: waiter",
        f"  has waited TIME for node/web1 (exclusive), held by job/{holder} (exclusive, for TIME)",
        f"    job {holder}: running for TIME: holder",
        "      nothing holds it",
    ]


def test_a_rule_whose_limit_is_full_is_told_by_one_line(cluster: Cluster) -> None:
    words = ("limit", "1", "--where", "name=one", "--reason", "one by one")
    rule = run("gnt-filter", "--root", cluster.root, *words).out.strip()
    first = submitted(cluster, "--name", "one", "--", "sleep", "600")
    cluster.wait(first, status="running")
    second = submitted(cluster, "--name", "one", "--", "true")

    assert why(cluster, second) == [
        f"job {second}: queued for TIME: one",
        f"  the limit of filter rule {rule} (one by one) is full, 1 of 1 run: job/{first}",
        "  is first in line",
    ]
