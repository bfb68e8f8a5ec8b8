"""A user whose inotify instances are used up: daemons start, jobs run and are followed, and all is told once.

Few are needed: one a daemon.

The limit is that of a user namespace of each daemon: nobody else has fewer.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from common.daemons import daemon_named
from tests.cli.command import Background, Ended, run
from tests.support.cluster import Cluster
from tests.support.leftovers import inotify_instances, processes_under
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until

LIMIT = "/proc/sys/user/max_inotify_instances"
NONE_LEFT = ("unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 > {LIMIT} && exec "$0" "$@"')
STARVED = ("wconfd", "luxid")


class Starved(Cluster):
    """Its master daemons get no inotify instance."""

    def _launch(self, name: str, env: Mapping[str, str], errors: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", daemon_named(name).module, "--root", str(self.root)]
        return subprocess.Popen([*(NONE_LEFT if name in STARVED else ()), *command], env=env, stderr=errors)

    def allow_watches(self) -> None:
        for name in STARVED:
            enter = ("nsenter", "--user", "--target", str(self.daemons[name].pid), "sh", "-c", f"echo 9 > {LIMIT}")
            subprocess.run(enter, check=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starved]:
    if subprocess.run([*NONE_LEFT, "true"], check=False, capture_output=True).returncode or os.getuid():
        pytest.skip("this user may not make user namespaces with limits of their own; as root they can be made")
    with Starved(tmp_path_factory.mktemp("c")) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        yield cluster


def gnt_job(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-job", "--root", cluster.root, *words)


def watch_findings(cluster: Cluster) -> list[str]:
    status = json.loads(run("gantry", "--root", cluster.root, "status", "--check", "--output", "json").out)
    return [each["text"] for each in status["findings"] if each["what"] == "watches"]


def test_jobs_run_and_their_output_is_followed_though_the_kernel_gives_no_watch(cluster: Starved) -> None:
    assert inotify_instances(cluster.daemons["luxid"].pid) == 0
    two_words = ("sh", "-c", "echo one; sleep 1.5; echo two")

    assert gnt_job(cluster, "run", "--wait", "--", *two_words) == Ended(0, "one\ntwo\n", "")
    job_id = gnt_job(cluster, "run", "--", *two_words).out.strip()
    assert gnt_job(cluster, "output", "--follow", job_id) == Ended(0, "one\ntwo\n", "")
    assert gnt_job(cluster, "wait", job_id).code == 0
    watched = gnt_job(cluster, "run", "--wait", "--each", "n=1..2", "--", "sh", "-c", "sleep 1; echo {n}")
    assert watched.code == 0, watched.err
    job_id = gnt_job(cluster, "run", "--", *two_words).out.strip()
    assert gnt_job(cluster, "watch", job_id).code == 0


def test_the_lock_of_a_killed_job_is_freed_without_an_event(cluster: Starved) -> None:
    job_id = int(gnt_job(cluster, "run", "--lock", "node/node1.test", "--", "sleep", "600").out)
    cluster.wait(job_id, status="running")

    (pid,) = cluster.job_pids()
    cluster.kill_group(pid)

    assert gnt_job(cluster, "run", "--wait", "--lock", "node/node1.test", "--", "true").code == 0
    assert cluster.status(job_id) == "error"


def test_the_limit_is_named_once_in_the_log_and_in_the_health_until_there_are_watches_again(cluster: Starved) -> None:
    for name in STARVED:
        told = [line for line in cluster.log(name).splitlines() if "folder.not_watched" in line]
        assert len(told) == 1, "once, for all folders and however long it lasts"
        assert "fs.inotify.max_user_instances" in told[0]
        assert "ulimit" not in told[0]
    found = watch_findings(cluster)
    assert len(found) == len(STARVED)
    assert all("fs.inotify.max_user_instances" in text for text in found)

    cluster.allow_watches()

    wait_until(lambda: not watch_findings(cluster), what="all folders are watched")
    assert [inotify_instances(cluster.daemons[name].pid) for name in STARVED] == [1, 1]
    job_id = gnt_job(cluster, "run", "--", "sh", "-c", "echo one").out.strip()
    assert gnt_job(cluster, "output", "--follow", job_id).out == "one\n"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Of a cluster that may have more nodes, with all that its first one runs."""
    nodes = f'[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n[noded]\naddress = "{HOST}"\n'
    ports = f"port = {free_port()}\n[rapid]\nport = {free_port()}\n"
    (tmp_path / "gantry.toml").write_text(f"{nodes}{ports}")
    ended = run("gantry", "--root", tmp_path, "up", "--detach")
    assert ended.code == 0, ended.err
    yield tmp_path
    run("gantry", "--root", tmp_path, "down", "--jobs")


def test_each_daemon_holds_one_instance_and_jobs_and_clients_hold_none(root: Path) -> None:
    daemons = json.loads(run("gantry", "--root", root, "status", "--output", "json").out)["daemons"]
    words = ("--node", "node1.test", "--", "sh", "-c", "echo one; exec sleep 600")
    assert run("gnt-job", "--root", root, "run", *words).code == 0

    with Background("gnt-job", "--root", root, "output", "--follow", "1") as follower:
        assert follower.read_line() == "one\n"
        held = {pid: inotify_instances(pid) for pid in processes_under(root)}

    pids = {name: each["pid"] for name, each in daemons.items() if each["pid"] is not None}
    assert max(held.values()) == 1
    assert {pid for pid, count in held.items() if count} <= set(pids.values())
    assert [held[pids[name]] for name in ("luxid", "wconfd", "noded")] == [1, 1, 1]
    # the supervisors of daemons and of the command, the job's process, its command, and the client
    assert len(held) > len(pids) + 3
