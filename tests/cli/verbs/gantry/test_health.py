"""`gantry status`, its `--check` for monitors, and `gnt-cluster verify` notice what is not well (everyday.md)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ended, run
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def gantry(cluster: Cluster, *words: str) -> Ended:
    return run("gantry", "--root", cluster.root, *words)


def check(cluster: Cluster) -> tuple[int, dict[str, Any]]:
    ended = gantry(cluster, "status", "--check", "--output", "json")
    return ended.code, json.loads(ended.out)


def found(cluster: Cluster) -> list[tuple[str, str]]:
    return [(each["level"], each["what"]) for each in check(cluster)[1]["findings"]]


def test_all_is_well_with_code_0(cluster: Cluster) -> None:
    ended = gantry(cluster, "status", "--check")

    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")
    assert "health" not in json.loads(gantry(cluster, "status", "--output", "json").out)


def test_a_drained_queue_and_a_rule_that_pauses_are_warnings_that_name_the_way_out(cluster: Cluster) -> None:
    run("gnt-cluster", "--root", cluster.root, "queue", "drain")
    added = run("gnt-filter", "--root", cluster.root, "soft-drain", "--reason", "noon")
    uuid = added.out.split()[-1]

    ended, told = gantry(cluster, "status", "--check"), gantry(cluster, "status")

    assert ended.code == 1
    assert ended.out.splitlines()[0] == "warning: queue: it is drained, and takes no new jobs; 1 more"
    assert f'warning: queue: filter rule {uuid} ("noon") makes jobs wait' in ended.out
    assert told.code == 0
    assert f"'gnt-filter delete {uuid}' ends that" in told.out
    verified = run("gnt-cluster", "--root", cluster.root, "verify")
    assert (verified.code, uuid in verified.out) == (0, True)

    run("gnt-cluster", "--root", cluster.root, "queue", "undrain")
    run("gnt-filter", "--root", cluster.root, "delete", uuid)
    assert gantry(cluster, "status", "--check").code == 0


def test_files_set_aside_are_told_until_they_are_gone(cluster: Cluster) -> None:
    aside = cluster.paths.damaged / "job-1"
    aside.write_bytes(b"{")

    assert (check(cluster)[0], found(cluster)) == (1, [("warning", "job files")])

    aside.unlink()
    assert check(cluster)[0] == 0


def test_a_disk_below_its_limit_is_critical_and_a_problem_of_verify(cluster: Cluster) -> None:
    # no disk has so much room
    (cluster.root / "gantry.toml").write_text("[health]\ndisk_critical_percent = 101\n")

    ended, verified = gantry(cluster, "status", "--check"), run("gnt-cluster", "--root", cluster.root, "verify")

    assert ended.code == 2
    assert ended.out.startswith("critical: disk: '")
    assert verified.code == 1
    assert "make room: 'gantry prune --dry-run'" in verified.out
    (cluster.root / "gantry.toml").write_text("")


def test_a_daemon_that_is_down_is_critical(cluster: Cluster) -> None:
    cluster.kill("wconfd")
    assert ("critical", "daemons") in found(cluster)
    cluster.kill("luxid")

    ended = gantry(cluster, "status", "--check")

    assert ended.code == 2
    assert "critical: daemons: luxid is down" in ended.out
    assert gantry(cluster, "status").code == 3
    cluster.start("wconfd", "luxid")


def test_no_installation_is_not_known(tmp_path: Path) -> None:
    assert run("gantry", "--root", tmp_path / "none", "status", "--check").code in (2, 3)


WAYS = ("gnt-filter pause", "gnt-filter drain", "gnt-filter soft-drain", "gnt-cluster queue")


@pytest.mark.parametrize("words", WAYS)
def test_the_help_compares_the_four_ways_to_hold_jobs(words: str) -> None:
    told = " ".join(run(*words.split(), "--help").out.split())

    for name in ("'gnt-filter pause'", "'soft-drain'", "'gnt-filter drain'", "'gnt-cluster queue drain'"):
        assert name in told
