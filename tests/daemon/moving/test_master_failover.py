"""`gnt-cluster master-failover` between living nodes, and its refusals (masterfailover.md 3)."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import MASTER_DAEMONS
from common.queue.terms import Hold, JobTerms, terms_entry
from common.system.running import find_daemon
from daemons.luxid.files.knownids import GAP
from protocol.luxi.queue import SetDrainFlag
from protocol.wconfd.config import ReadConfig
from tests.cli.command import run
from tests.daemon.luxid.ops import after, dummy, gated, process_of
from tests.support.machines.movablemaster import Machine, MovableMaster
from tests.support.wait import wait_until


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovableMaster]:
    # a short name: the paths of sockets are limited
    with MovableMaster(tmp_path_factory.mktemp("m"), 3) as machines:
        machines.up()
        yield machines


def masters(machines: MovableMaster) -> list[str]:
    """The nodes on which a daemon of the master runs."""
    return [machine.name for machine in machines if any(find_daemon(machine.paths, name) for name in MASTER_DAEMONS)]


def daemon_pid(machine: Machine, name: str) -> int:
    found = find_daemon(machine.paths, name)
    assert found is not None
    return found.pid


def ssconf_master(machine: Machine) -> str:
    return machine.paths.ssconf_file("master_node").read_text().strip()


def test_a_move_keeps_what_is_queued_fails_what_runs_and_comes_back(machines: MovableMaster, tmp_path: Path) -> None:
    first, second, third = machines
    running = first.cluster.submit(gated(tmp_path / "never"))
    first.cluster.wait(running, status="running")
    dependent = first.cluster.submit(dummy(depends=after(running, wanted=("error",))))
    done = first.cluster.submit(dummy())
    first.cluster.wait(done, status="success")
    pid = process_of(first.cluster, running)
    first.cluster.luxi(SetDrainFlag(True))
    machines.until_same(first, second, third)

    moved = second.gnt_cluster("master-failover", "--output", "json")

    assert moved.code == 0, moved
    told = json.loads(moved.out)
    assert (told["before"], told["master"], told["epoch"]) == (first.name, second.name, 1)
    # a slow node gets its copy of the configuration later, which is told, too
    assert ["the queue was closed" in text for text in told["warnings"]].count(True) == 1
    assert masters(machines) == [second.name]
    assert not Path(f"/proc/{pid}").exists()
    # the job that ran is ended as failed at once, and the other one runs
    assert second.cluster.wait(running, dependent, done) == ["error", "success", "success"]
    # ids that the old master may have used are left out
    assert second.cluster.submit(dummy()) == done + GAP + 1
    machines.until_same(second, first, third)
    assert [ssconf_master(machine) for machine in machines] == [second.name] * 3
    status = first.gantry("status")
    assert (status.code, status.out.splitlines()[-1]) == (0, f"this node is not the master; {second.name} is")
    elsewhere = run("gnt-job", "--root", first.cluster.root, "list")
    assert (elsewhere.code, elsewhere.err) == (
        3,
        f"error: this node is not the master; {second.name} is; run the command there\n",
    )

    assert machines.move_to(first) is first

    assert masters(machines) == [first.name]
    assert first.cluster.submit(dummy()) == done + 2 * GAP + 2
    assert [machine.paths.epoch_file.read_text() for machine in machines] == [f"2 {first.name}\n"] * 3
    machines.until_same(first, second, third)


def test_nothing_is_changed_where_the_master_may_not_be(machines: MovableMaster) -> None:
    first, second, third = machines
    before = first.cluster.wconf(ReadConfig())

    already = first.gnt_cluster("master-failover")
    third.paths.serial_file.write_text("99\n")
    outdated = second.gnt_cluster("master-failover")
    unconfirmed = second.gnt_cluster("master-failover", "--no-voting")
    candidates = second.paths.ssconf_file("master_candidates")
    candidates.unlink()
    candidates.write_text(f"{first.name}\n")
    plain = second.gnt_cluster("master-failover")

    assert (already.code, outdated.code, unconfirmed.code, plain.code) == (1, 1, 13, 1)
    assert "'node1.test' is the master already" in already.err
    assert "'node3.test' has newer copies than this node" in outdated.err
    assert "--accept-loss" in outdated.err
    assert "'node2.test' is not a master candidate, those are node1.test" in plain.err
    assert first.cluster.wconf(ReadConfig()) == before
    assert not any(machine.paths.epoch_file.exists() for machine in machines)
    assert masters(machines) == [first.name]


def test_what_a_candidate_has_set_aside_is_had_from_it_when_it_is_the_master(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The master has lost a job, and then all that it had; nobody else has a copy."""
    with MovableMaster(tmp_path_factory.mktemp("m"), 2) as machines:
        machines.up()
        first, second = machines
        job = first.cluster.submit(dummy(reason=[terms_entry(JobTerms(hold=Hold()), 0).to_wire()]))
        machines.until_same(first, second)
        kept = second.paths.job_file(job).read_bytes()
        first.paths.job_file(job).unlink()
        os.kill(daemon_pid(first, "luxid"), signal.SIGKILL)
        wait_until(lambda: any(second.paths.set_aside.glob(f"*/queue/job-{job}")), what="it is set aside")
        first.cluster.crash()

        machines.move_to(second, "--no-voting")

        wait_until(second.is_ready, what="the new master serves")
        told = json.loads(second.gantry("repair", "--output", "json").out)
        assert [(row["job"], row["nodes"], row["becomes"]) for row in told["lost"]] == [(job, [second.name], "held")]
        assert "the master has lost 1 file of jobs" in second.gnt_cluster("verify").out
        fetched = json.loads(second.gantry("repair", "--fetch", "--output", "json").out)
        assert fetched["lost"][0]["is_done"]
        assert second.paths.job_file(job).read_bytes() == kept
        assert second.cluster.status(job) == "queued"
        assert "the master has lost" not in second.gnt_cluster("verify").out
