"""The order of filter rules through a luxid that runs: priority, then watermark, then UUID. luxid.md 6."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.daemon.luxid.ops import dummy
from tests.support.cluster import Cluster

EARLY = "00000000-0000-4000-8000-000000000001"
LATE = "ffffffff-0000-4000-8000-000000000002"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def set_rule(cluster: Cluster, uuid: str, action: str = "ACCEPT") -> None:
    ended = run("gnt-filter", "--root", cluster.root, "replace", uuid, "--action", action)
    assert ended.code == 0, ended


def rules(cluster: Cluster) -> list[str]:
    told = run("gnt-filter", "--root", cluster.root, "list", "--output", "json")
    return [rule["uuid"] for rule in json.loads(told.out)]


def test_without_a_job_between_two_rules_the_uuid_decides_which_is_asked_first(cluster: Cluster) -> None:
    set_rule(cluster, LATE)
    set_rule(cluster, EARLY, "REJECT")

    refused = run("gnt-job", "--root", cluster.root, "run", "--", "true")

    assert rules(cluster) == [EARLY, LATE]
    assert (refused.code, EARLY in refused.err) == (1, True)


def test_with_a_job_between_two_rules_the_older_is_asked_first(cluster: Cluster) -> None:
    set_rule(cluster, LATE)
    cluster.wait(cluster.submit(dummy()))
    set_rule(cluster, EARLY, "REJECT")

    accepted = cluster.submit(dummy())

    assert rules(cluster) == [LATE, EARLY]
    assert cluster.wait(accepted) == ["success"]
