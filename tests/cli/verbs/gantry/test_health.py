"""`gantry status`, its `--check` for monitors, and `gnt-cluster verify` notice what is not well (everyday.md)."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.cluster import verify
from cli.cluster.main import group as cluster_group
from cli.clusterstate import problems
from cli.gantry import status
from cli.gantry.main import group as gantry_group
from cli.program import exit_code
from common.errors import SilentDaemon
from protocol.blocking import BlockingClient
from protocol.messages import Request
from tests.cli.command import Ended, run
from tests.support.cluster import Cluster
from tests.support.stopping import stop


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


def test_a_wconfd_that_gives_no_answer_is_told_and_waited_for_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (status, problems, verify):
        monkeypatch.setattr(module, "ANSWER_S", 1.0)
    waits = list[float]()
    call = BlockingClient.call

    def counted(self: BlockingClient, request: Request[Any], *, timeout_s: float | None = None) -> Any:
        try:
            return call(self, request, timeout_s=timeout_s)
        except SilentDaemon:
            waits.append(timeout_s or 180.0)
            raise

    monkeypatch.setattr(BlockingClient, "call", counted)
    pid = cluster.daemons["wconfd"].pid
    stop(pid)
    try:
        for group, program, words in (
            (gantry_group, "gantry", ["status"]),
            (gantry_group, "gantry", ["status", "--check"]),
            (cluster_group, "gnt-cluster", ["verify"]),
        ):
            waits.clear()
            code = exit_code(group, program, ["--root", str(cluster.root), *words])

            shown = capsys.readouterr()
            assert code != 0, words
            assert "wconfd" in shown.out + shown.err
            assert "silent" in shown.out + shown.err or "no answer" in shown.out + shown.err
            assert waits == [1.0], words
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_job_whose_file_is_gone_is_told_by_verify(tmp_path: Path) -> None:
    with Cluster(tmp_path / "c") as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        job = int(run("gnt-job", "--root", cluster.root, "run", "--", "echo", "kept").out)
        cluster.wait(job)
        cluster.kill("luxid")
        cluster.paths.job_file(job).unlink()
        cluster.start("luxid")

        ended = run("gnt-cluster", "--root", cluster.root, "verify", "--output", "json")

    root = cluster.root
    assert ended.code == 1
    assert json.loads(ended.out)["lost jobs"] == [
        f"a file of a job is lost, such as 'queue/job-{job}'; see: gantry --root {root} repair"
    ]
