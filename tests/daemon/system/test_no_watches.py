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
from typing import ClassVar

import pytest

from common.daemons import daemon_named
from tests.cli.command import Background, Ended, run
from tests.support.cluster import Cluster
from tests.support.leftovers import inotify_instances, processes_under
from tests.support.machines.fleet import Fleet
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until

LIMIT = "/proc/sys/user/max_inotify_instances"
NONE_LEFT = ("unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 > {LIMIT} && exec "$0" "$@"')
STARVED = ("wconfd", "luxid")


class Starved(Cluster):
    """Its daemons get no inotify instance.

    In a namespace of its own luxid cannot look into the processes of jobs, and so not kill them.
    """

    NAMES: ClassVar[tuple[str, ...]] = (*STARVED, "noded")

    def _launch(self, name: str, env: Mapping[str, str], errors: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", daemon_named(name).module, "--root", str(self.root)]
        return subprocess.Popen([*(NONE_LEFT if name in self.NAMES else ()), *command], env=env, stderr=errors)

    def allow_watches(self) -> None:
        for name in STARVED:
            enter = ("nsenter", "--user", "--target", str(self.daemons[name].pid), "sh", "-c", f"echo 9 > {LIMIT}")
            subprocess.run(enter, check=True)


class StarvedNode(Starved):
    NAMES = ("noded",)


@pytest.fixture(scope="module")
def _limits() -> None:
    if subprocess.run([*NONE_LEFT, "true"], check=False, capture_output=True).returncode or os.getuid():
        pytest.skip("this user may not make user namespaces with limits of their own; as root they can be made")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, _limits: None) -> Iterator[Starved]:
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
    # the same look tells of both jobs, and the verdict on a death comes a little later
    assert cluster.wait(job_id) == ["error"]


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
def fleet(tmp_path: Path, _limits: None, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """A master and a node, whose daemons get no instance."""
    with Fleet(tmp_path, 1, kind=request.param) as fleet:
        fleet.start()
        fleet.master.start("forkserver", "luxid")
        fleet.until_same_queue(*fleet.nodes)
        yield fleet


@pytest.mark.parametrize("fleet", [StarvedNode], indirect=True)
def test_a_node_daemon_without_watches_tells_of_its_commands_and_ends_them(fleet: Fleet) -> None:
    (node,) = fleet.nodes
    assert inotify_instances(node.cluster.daemons["noded"].pid) == 0

    ran = gnt_job(fleet.master, "run", "--node", node.name, "--wait", "--", "sh", "-c", "echo one; sleep 1.5; echo two")

    assert ran == Ended(0, "one\ntwo\n", "")
    job_id = int(gnt_job(fleet.master, "run", "--node", node.name, "--", "sleep", "600").out)
    fleet.master.wait(job_id, status="running")
    assert gnt_job(fleet.master, "cancel", "--kill", job_id).code == 0
    assert fleet.master.wait(job_id) == ["canceled"]
    told = [line for line in node.cluster.log("noded").splitlines() if "folder.not_watched" in line]
    assert len(told) == 1, "once, for all folders and however long it lasts"
    assert "fs.inotify.max_user_instances" in told[0]


@pytest.mark.parametrize("fleet", [Starved], indirect=True)
def test_jobs_on_each_node_are_waited_for_and_a_node_is_removed_without_watches(fleet: Fleet) -> None:
    ran = gnt_job(fleet.master, "run", "--each-node", "--wait", "--", "sh", "-c", "sleep 1.5; echo two")
    assert ran.code == 0, ran.err
    assert "2 of 2 nodes succeeded" in ran.out

    removed = run("gnt-node", "--root", fleet.master.root, "remove", "node2.test")

    assert removed.code == 0, removed.err
    assert list(fleet.nodes_by_name()) == ["node1.test"]
    assert run("gnt-cluster", "--root", fleet.master.root, "verify").code == 0


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
