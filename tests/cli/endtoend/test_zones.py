"""Instants as every command tells them: local time with its zone to people, ISO 8601 with the offset as JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cli.command import run
from tests.support.cluster import Cluster

# two hours before UTC all the year; the daemons have another zone
HERE: Final = {"TZ": "XXX-2"}
LOCAL: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("zones") / "root") as cluster:
        cluster.start("wconfd", "luxid", "forkserver")
        yield cluster


def told(cluster: Cluster, program: str, *words: object, zone: dict[str, str] = HERE) -> str:
    ended = run(program, "--root", cluster.root, *words, env=zone)
    assert ended.code == 0, ended
    return ended.out + ended.err


def as_json(cluster: Cluster, program: str, *words: object) -> Any:
    return json.loads(run(program, "--root", cluster.root, *words, "--output", "json", env=HERE).out)


def test_the_time_that_was_typed_is_the_time_that_is_told(cluster: Cluster) -> None:
    job_id = told(cluster, "gnt-job", "run", "--begin", "2099-01-02 03:04", "--", "true").split()[0]

    there = told(cluster, "gnt-job", "why", job_id, zone={"TZ": "UTC"})

    assert "at 2099-01-02 03:04:00 +0200" in told(cluster, "gnt-job", "why", job_id)
    assert "at 2099-01-02 01:04:00 UTC" in there
    assert "2099-01-02 03:04:00 +0200" in told(cluster, "gnt-job", "list", "-o", "id,begin_ts")


def test_a_schedule_tells_local_time_and_that_of_its_own_zone(cluster: Cluster) -> None:
    words = ("--cron", "0 2 1 1 *", "--zone", "Asia/Tokyo", "--", "true")

    added = told(cluster, "gantry", "schedule", "add", "tokyo", *words)

    assert re.search(r"next run: \d{4}-12-31 19:00:00 \+0200, \d{4}-01-01 02:00 in Asia/Tokyo", added)
    assert re.search(r"\d{4}-12-31 19:00:00 \+0200", told(cluster, "gantry", "schedule", "list"))
    (view,) = as_json(cluster, "gantry", "schedule", "info", "tokyo")
    assert view["next"][0].endswith("-12-31T19:00:00.000+02:00")


def test_an_interval_is_told_in_local_time_alone(cluster: Cluster) -> None:
    added = told(cluster, "gantry", "schedule", "add", "often", "--every", "1h", "--", "true")

    assert re.search(rf"every 1h00m, from {LOCAL} \+0200 on\nnext run: {LOCAL} \+0200 \(in ", added)


def test_tables_and_descriptions_of_jobs_have_the_zone(cluster: Cluster) -> None:
    job_id = told(cluster, "gnt-job", "run", "--", "true").split()[0]
    cluster.wait(int(job_id))

    assert re.search(rf"{LOCAL} \+0200", told(cluster, "gnt-job", "list", "-o", "id,end_ts", job_id))
    assert re.search(rf"Received: +{LOCAL}\.\d{{6}} \+0200", told(cluster, "gnt-job", "info", job_id))
    assert re.search(rf"{LOCAL} \+0200", told(cluster, "gnt-job", "history"))
    assert re.search(rf"submitted at {LOCAL} \+0200", told(cluster, "gnt-job", "why", job_id))
    (row,) = as_json(cluster, "gnt-job", "info", job_id)
    assert row["end"].endswith("+02:00")
