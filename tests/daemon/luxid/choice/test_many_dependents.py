"""Thousands of jobs that depend on one, whose end decides about all of them by one event (luxid.md 5.4)."""

from collections import Counter
from typing import Any

import pytest

from common.ids import JobId
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import ReplaceFilter
from tests.daemon.luxid.ops import after, dummy, gated
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

COUNT = 2000
HEAD = [["gnt:user", "the head", 1]]


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    """An installation in which nothing but the head of each test is started."""
    is_head = ("reason", ("=", "reason", "the head"))
    cluster.luxi(ReplaceFilter(None, 0, (is_head,), "ACCEPT", ()))
    cluster.luxi(ReplaceFilter(None, 1, (), "PAUSE", ()))
    return cluster


def head(cluster: Cluster) -> dict[str, Any]:
    return {**gated(cluster.root / "go"), "reason": HEAD}


def states(cluster: Cluster, job_ids: list[JobId]) -> Counter[str]:
    return Counter(str(row[0]) for row in cluster.luxi(QueryJobs(tuple(job_ids), ("status",))))


def are_all(cluster: Cluster, state: str, job_ids: list[JobId]) -> bool:
    return states(cluster, job_ids) == {state: len(job_ids)}


def files(cluster: Cluster, job_ids: list[JobId]) -> list[tuple[int, int]]:
    """Another one after each write."""
    found = [cluster.paths.job_file(job_id).stat() for job_id in job_ids]
    return [(stat.st_ino, stat.st_mtime_ns) for stat in found]


def test_the_end_of_one_makes_all_ready_that_wait_for_it_and_no_other(cluster: Cluster) -> None:
    relative = [(dummy(depends=after(-place)),) for place in range(1, COUNT + 1)]
    first, *dependents = cluster.submit_many((head(cluster),), *relative)
    # the last one waits for a job that is paused, too
    [twice] = cluster.submit_many((dummy(depends=after(first, dependents[-1])),))
    cluster.wait(first, status="running")
    assert are_all(cluster, "waiting", dependents)
    before = files(cluster, dependents)

    (cluster.root / "go").touch()

    wait_until(lambda: are_all(cluster, "queued", dependents), what="all are ready")
    assert cluster.status(first) == "success"
    assert cluster.status(twice) == "waiting"
    assert files(cluster, dependents) == before, "nothing about them is written"
    log = cluster.log("luxid")
    assert (log.count("job.started"), log.count("job.ended")) == (1, 1)
    assert "sweep.found_dead" not in log


def test_absolute_ids_and_a_restart_meanwhile_make_no_difference(cluster: Cluster) -> None:
    first = cluster.submit(head(cluster))
    cluster.wait(first, status="running")
    dependents = cluster.submit_many(*[(dummy(depends=after(first)),)] * COUNT)

    cluster.restart("luxid")

    assert are_all(cluster, "waiting", dependents)
    (cluster.root / "go").touch()
    wait_until(lambda: are_all(cluster, "queued", dependents), what="all are ready")
    assert cluster.log("luxid").count("job.started") == 1


def test_the_failure_of_one_fails_all_that_need_its_success(cluster: Cluster) -> None:
    first = cluster.submit(head(cluster), dummy(fail="no", reason=HEAD))
    cluster.wait(first, status="running")
    job_ids = cluster.submit_many(
        *[(dummy(depends=after(first)),)] * (COUNT // 2),
        *[(dummy(depends=after(first, wanted=("success", "error"))),)] * (COUNT // 2),
    )
    need, take = job_ids[: COUNT // 2], job_ids[COUNT // 2 :]

    (cluster.root / "go").touch()

    wait_until(lambda: are_all(cluster, "error", need), what="they have failed", state=lambda: states(cluster, need))
    wait_until(lambda: are_all(cluster, "queued", take), what="they are ready", state=lambda: states(cluster, take))
    results = Counter(str(row[0]) for row in cluster.luxi(QueryJobs(tuple(need), ("opresult",))))
    [(text, count)] = results.items()
    assert f"dependency job {first} ended with status 'error'" in text
    assert count == COUNT // 2


def test_ready_jobs_are_started_no_more_at_once_than_there_are_slots(cluster: Cluster) -> None:
    first = cluster.submit(head(cluster))
    holds = {**gated(cluster.root / "never"), "reason": HEAD}
    dependents = cluster.submit_many(*[({**holds, "depends": after(first)},)] * COUNT)
    cluster.wait(first, status="running")

    (cluster.root / "go").touch()

    wanted = {"running": 4, "queued": COUNT - 4}
    wait_until(
        lambda: states(cluster, dependents) == wanted, what="four run", state=lambda: states(cluster, dependents)
    )
    assert cluster.log("luxid").count("job.started") == 5
