"""What commands leave running: ended with them, or left, named and ended by hand. DESIGN section 16."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.system.processes import Process, find_process, is_living
from protocol.wconfd.locks import ListAllLocksOwners
from tests.cli.command import Ended, run
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("c"), settings="[luxid]\nkill_grace_s = 0.3\n") as cluster:
        cluster.start()
        yield cluster


def job(cluster: Cluster, *words: object) -> Ended:
    return run("gnt-job", "--root", cluster.root, *words)


def leave(cluster: Cluster, folder: Path, *options: str) -> tuple[int, Process]:
    """Run a command that leaves a process in a session of its own, to its end."""
    file = folder / "pid"
    script = f"setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! > {file}"
    words = ("run", "--wait", "--print-jobid", "--lock", "node/n1", *options, "--shell", "--", script)
    ended = job(cluster, *words)
    assert (ended.code, ended.err) == (0, "")
    process = find_process(int(file.read_text()))
    return int(ended.out), process or Process(int(file.read_text()), 0)


def lock_holders(cluster: Cluster) -> set[object]:
    return {owner.ident for _, owners in cluster.wconf(ListAllLocksOwners()) for owner, _ in owners}


def test_what_a_command_leaves_running_is_ended_with_it(cluster: Cluster, tmp_path: Path) -> None:
    _, process = leave(cluster, tmp_path)

    assert not is_living(process)
    # they are freed while the end is written
    wait_until(lambda: not lock_holders(cluster), what="the locks are free")


def test_what_is_detached_runs_on_without_the_locks(cluster: Cluster, tmp_path: Path) -> None:
    job_id, process = leave(cluster, tmp_path, "--detach")

    assert is_living(process)
    wait_until(lambda: job_id not in lock_holders(cluster), what="the locks are free")
    assert is_living(process)
    os.kill(process.pid, signal.SIGKILL)


def test_what_keeps_the_locks_is_named_and_ended_by_a_kill_of_its_job(cluster: Cluster, tmp_path: Path) -> None:
    job_id, process = leave(cluster, tmp_path, "--keep-locks")
    assert lock_holders(cluster) == {job_id}
    sentence = (
        f"job/{job_id} has ended, but what it left running keeps its locks: pid {process.pid}; "
        f"end that with: gnt-job --root {cluster.root} cancel --kill {job_id}"
    )

    locks = run("gnt-debug", "--root", cluster.root, "locks")
    verified = run("gnt-cluster", "--root", cluster.root, "verify", "--output", "json")

    assert locks.err == sentence + "\n"
    assert (verified.code, json.loads(verified.out)["processes"]) == (1, [sentence])
    assert is_living(process)
    assert job(cluster, "archive", job_id).code == 0
    assert job(cluster, "cancel", "--kill", job_id).code == 0
    wait_until(lambda: not lock_holders(cluster), what="the locks are free")
    assert not is_living(process)
    assert run("gnt-debug", "--root", cluster.root, "locks").err == ""


def test_why_names_what_still_lives_of_a_killed_job(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Cluster(tmp_path / "c", settings="[luxid]\nkill_grace_s = 600\n") as cluster:
        cluster.start()
        script = f"trap '' TERM; echo $$ > {begun}.new; mv {begun}.new {begun}; while :; do sleep 0.1; done"
        assert job(cluster, "run", "--", "sh", "-c", script).code == 0
        wait_until(begun.exists, what="the command has begun")
        cluster.wait(1, status="running")

        job(cluster, "cancel", "--kill", 1)
        why = job(cluster, "why", 1)
        listed = job(cluster, "list", "--no-headers", "-o", "status")
        as_json = job(cluster, "list", "--output", "json")

        # on a slow machine more lines tell that it was
        heading, reason, *_ = why.out.splitlines()
        assert heading.startswith("job 1: ending")
        assert reason.startswith("  is being killed and keeps its locks until all of it has ended: pid ")
        assert begun.read_text().strip() in reason.rpartition("pid ")[2].split(", ")
        assert listed.out == "ending\n"
        assert json.loads(as_json.out)[0]["status"] == "canceling"
        os.kill(int(begun.read_text()), signal.SIGKILL)
        assert cluster.wait(1) == ["canceled"]


def test_down_does_not_wait_longer_for_jobs_than_it_is_told(tmp_path: Path) -> None:
    root, begun = tmp_path / "root", tmp_path / "begun"
    root.mkdir()
    (root / "gantry.toml").write_text("[luxid]\nkill_grace_s = 600\n")
    assert run("gantry", "--root", root, "up", "--detach").code == 0
    script = f"trap '' TERM; echo $$ > {begun}.new; mv {begun}.new {begun}; while :; do sleep 0.1; done"
    assert run("gnt-job", "--root", root, "run", "--", "setsid", "sh", "-c", script).code == 0
    wait_until(begun.exists, what="the command has begun")

    # each daemon gets the same time
    ended = run("gantry", "--root", root, "down", "--jobs", "--timeout", "8")

    assert (ended.code, ended.out) == (0, "down\n")
    assert ended.err.startswith("1 job is still ending, which needs no daemon; see what became of that after: ")
    pid = int(begun.read_text())
    process = find_process(pid)
    assert process is not None
    os.kill(pid, signal.SIGKILL)
    assert not run("gantry", "--root", root, "up", "--detach").code
    listed = run("gnt-job", "--root", root, "wait", "1")
    assert listed.code == 1
    assert run("gnt-job", "--root", root, "list", "--no-headers", "-o", "status").out == "canceled\n"
    assert run("gantry", "--root", root, "down").code == 0
