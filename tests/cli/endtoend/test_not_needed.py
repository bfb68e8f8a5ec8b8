"""The exit code of a plan whose jobs wait for failures, through a luxid that runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Ended, run
from tests.support.cluster import Cluster

ALARM = {"name": "alarm", "after": {"test": "failure"}, "run": ["true"]}
AFTERWARDS = {"name": "afterwards", "after": "alarm", "run": ["true"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("needed") / "root") as cluster:
        cluster.start("wconfd", "luxid", "forkserver")
        yield cluster


def submit(cluster: Cluster, tmp_path: Path, *jobs: object, words: tuple[str, ...] = ("--wait",)) -> Ended:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"jobs": jobs}))
    return run("gnt-job", "--root", cluster.root, "submit", *words, plan)


def test_a_job_for_a_failure_that_did_not_come_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    test = {"name": "test", "run": ["true"]}

    ended = submit(cluster, tmp_path, test, ALARM, AFTERWARDS, words=("--wait", "--exit", "max"))

    assert ended.code == 0
    assert "(alarm) was not needed: dependency job" in ended.err
    assert "(afterwards) was not needed: dependency job" in ended.err
    assert "error:" not in ended.err


def test_wait_and_watch_judge_as_the_submission_does(cluster: Cluster, tmp_path: Path) -> None:
    told = submit(cluster, tmp_path, {"name": "test", "run": ["true"]}, ALARM, words=())
    ids = told.out.split()

    assert [run("gnt-job", "--root", cluster.root, verb, *ids).code for verb in ("wait", "watch")] == [0, 0]
    # alone it did not do what was asked for
    assert run("gnt-job", "--root", cluster.root, "wait", ids[1]).code == 1


def test_a_failure_counts_although_an_alarm_told_of_it(cluster: Cluster, tmp_path: Path) -> None:
    ended = submit(cluster, tmp_path, {"name": "test", "run": ["false"]}, ALARM)

    assert ended.code == 1
    assert "error: job" in ended.err
    assert "(test) failed" in ended.err
    assert "not needed" not in ended.err


def test_a_job_that_never_ran_since_another_failed_counts(cluster: Cluster, tmp_path: Path) -> None:
    build, test = {"name": "build", "run": ["false"]}, {"name": "test", "after": "build", "run": ["true"]}

    ended = submit(cluster, tmp_path, build, test, ALARM)

    assert ended.code == 1
    assert "(test) failed" in ended.err
