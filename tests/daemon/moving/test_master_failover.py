"""`gnt-cluster master-failover` between living nodes, and its refusals (masterfailover.md 3)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import MASTER_DAEMONS
from common.system.running import find_daemon
from daemons.luxid.files.loading import GAP
from protocol.luxi.queue import SetDrainFlag
from protocol.wconfd.config import ReadConfig
from tests.cli.command import run
from tests.daemon.luxid.ops import after, dummy, gated, process_of
from tests.support.machines.movablemaster import Machine, MovableMaster


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovableMaster]:
    # a short name: the paths of sockets are limited
    with MovableMaster(tmp_path_factory.mktemp("m"), 3) as machines:
        machines.up()
        yield machines


def masters(machines: MovableMaster) -> list[str]:
    """The nodes on which a daemon of the master runs."""
    return [machine.name for machine in machines if any(find_daemon(machine.paths, name) for name in MASTER_DAEMONS)]


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
