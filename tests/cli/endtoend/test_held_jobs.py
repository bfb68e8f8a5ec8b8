"""Held jobs and later begins at the shell, against real daemons (DESIGN section 16)."""

import json
from collections.abc import Iterator

import pytest

from common.ids import JobId
from protocol.luxi.jobs import CancelJobs
from tests.cli.command import Ended
from tests.cli.programhost import ProgramHost
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("h")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def job(host: ProgramHost, cluster: Cluster, *words: object) -> Ended:
    return host.run("gnt-job", "--root", str(cluster.root), *map(str, words))


def test_a_job_is_held_modified_explained_and_released(host: ProgramHost, cluster: Cluster) -> None:
    job_id = int(job(host, cluster, "run", "--begin", "in 1h", "--name", "backup", "--", "true").out)

    assert "  begins in " in job(host, cluster, "why", job_id).out
    assert job(host, cluster, "hold", "--why", "the disk is full", job_id) == Ended(0, f"job {job_id} is held\n", "")
    assert ": the disk is full; gnt-job release lets it go" in job(host, cluster, "why", job_id).out
    words = ("--label", "team=web", "--name", "copy", "--priority", "high", "--begin", "now", job_id)
    assert job(host, cluster, "modify", *words) == Ended(0, f"job {job_id} was changed\n", "")

    fields = ("status", "name", "label.team", "priority", "begin_ts")
    assert cluster.job(job_id, *fields) == ("queued", "copy", "web", -10, None)
    told = job(host, cluster, "info", job_id).out
    assert "  Name: copy\n  Labels: team=web\n  Held: since " in told
    assert ": the disk is full\n" in told
    # without ids, release finds only what is held
    other = int(job(host, cluster, "run", "--begin", "in 1h", "--", "true").out)
    released = job(host, cluster, "release", "--queued", "--force")
    assert released == Ended(0, f"job {job_id} is released\n", "")
    assert cluster.wait(job_id) == ["success"]
    assert cluster.status(other) == "queued"
    cluster.luxi(CancelJobs((JobId(other),)))


def test_what_is_too_late_is_said_in_plain_words(host: ProgramHost, cluster: Cluster) -> None:
    job_id = int(job(host, cluster, "run", "--", "true").out)
    cluster.wait(job_id)

    late = job(host, cluster, "modify", "--name", "x", job_id)

    assert late == Ended(1, "", f"error: job {job_id} has ended (success)\n")


def test_held_jobs_are_canceled_like_others(host: ProgramHost, cluster: Cluster) -> None:
    ids = [int(job(host, cluster, "run", "--hold", "--name", "doomed", "--", "true").out) for _ in range(3)]

    canceled = job(host, cluster, "cancel", "--queued", "--force", "--output", "json")

    assert json.loads(canceled.out) == [[True, f"job {job_id} was canceled"] for job_id in ids]
    assert cluster.wait(*ids) == ["canceled"] * 3
