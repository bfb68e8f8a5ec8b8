"""The master's machine dies, or the move does: no acknowledged job is lost, no id is used twice (DESIGN 12)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import MASTER_DAEMONS
from common.ids import JobId
from common.system.running import find_daemon
from protocol.luxi.queries import QueryJobs
from tests.cli.command import Ended, run
from tests.daemon.luxid.ops import dummy
from tests.support.machines.fleet import files
from tests.support.machines.movablemaster import Machine, MovableMaster
from tests.support.machines.submitting import Submitter
from tests.support.wait import wait_until

# functions of the move; the program is killed when it calls one of them
STEPS = [
    "moving.MasterFailover._claim",
    "moving.MasterFailover._stop",
    "moving.MasterFailover._name_master",
    # wconfd runs here then
    "moving._uuid",
    "moving.MasterFailover._open_queue",
    "moving.MasterFailover._start",
]
DEATH = "lambda *_: os.kill(os.getpid(), 9)"


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovableMaster]:
    # a short name: the paths of sockets are limited
    with MovableMaster(tmp_path_factory.mktemp("m"), 3) as machines:
        machines.up()
        yield machines


def submit_command(master: Machine, machine: Machine, script: str) -> JobId:
    """Submit a command on another node, under a lock that all such commands want."""
    op = {"OP_ID": "OP_RUN_COMMAND", "shell": True, "node": machine.name, "locks": {"instance/x": "exclusive"}}
    return master.cluster.submit({**op, "argv": [script]})


def check_acknowledged(master: Machine, client: Submitter) -> None:
    """Each acknowledged job is there, and ends; no id was given twice."""
    ids = [each.job_id for each in client.acknowledged]
    assert len(set(ids)) == len(ids)
    assert [row[0] for row in master.cluster.luxi(QueryJobs(tuple(ids), ("id",)))] == ids
    assert set(master.cluster.wait(*ids)) <= {"success", "error"}


def test_no_acknowledged_job_is_lost_when_the_machine_of_the_master_dies_twice(
    machines: MovableMaster, tmp_path: Path
) -> None:
    """Nor is a command that runs on another node: it is taken up, and its locks are not free before its end."""
    master, tally, gate = machines["node1.test"], tmp_path / "tally", tmp_path / "gate"
    busy = machines["node3.test"]
    lines = f"until [ -e {gate} ]; do echo line; sleep 0.1; done"
    command = submit_command(master, busy, f"echo begin >> {tally}; {lines}; echo end >> {tally}")
    wait_until(tally.exists, what="the command runs")
    with Submitter(master, dummy()) as client:
        for _ in range(2):
            client.until_acknowledged(20)
            old = master
            old.cluster.crash()
            third = next(machine for machine in machines if machine not in (old, busy))
            new = machines.move_to(third)
            while new is busy:
                # it had newer copies, or its jobs have gone on since; its death would be that of the command
                wait_until(lambda at=third.paths: files(at) == files(busy.paths), what="the third has them, too")  # type: ignore[misc]
                new = machines.move_to(third)
            master = new
            client.turn_to(new)
            client.until_acknowledged(5)
            # it believes to be the master, and finds that it is not
            assert old.up().code == 0
            assert not any(find_daemon(old.paths, name) for name in MASTER_DAEMONS)
            wait_until(lambda at=old.paths, of=new.paths: files(at) == files(of), what="it is a good candidate again")  # type: ignore[misc]

    check_acknowledged(master, client)
    assert master.cluster.status(command) == "running"
    rival = submit_command(master, busy, f"echo rival >> {tally}")
    master.cluster.wait(rival, status="waiting")
    gate.touch()
    assert master.cluster.wait(command, rival) == ["success", "success"]
    assert tally.read_text().split() == ["begin", "end", "rival"]
    machines.until_same(master, *(machine for machine in machines if machine is not master))


def killed_move(machine: Machine, step: str) -> Ended:
    """A move to this machine that is killed when it comes to this step."""
    return run(
        "gnt-cluster",
        *("--root", machine.cluster.root, "master-failover"),
        prelude=f"import os; from cli.cluster import moving; {step} = {DEATH}",
    )


@pytest.mark.parametrize("is_dead", [True, False], ids=["the old master is dead", "the old master lives"])
def test_a_move_that_is_killed_before_any_step_is_repeated(machines: MovableMaster, *, is_dead: bool) -> None:
    first, second, third = machines
    with Submitter(first, dummy()) as client:
        client.until_acknowledged(5)
        if is_dead:
            first.cluster.crash()
        for step in STEPS:
            killed = killed_move(second, step)
            if is_dead and "has newer copies than this node" in killed.err:
                # a job was on its way to both, and this one has not got it; after a claim nothing more comes
                assert step in STEPS[:2], (step, killed)
                second, third = third, second
                killed = killed_move(second, step)
            assert killed.code == -9, (step, killed)
            wait_until(lambda at=second.paths: not find_daemon(at, "wconfd"), what="wconfd ends with the program")  # type: ignore[misc]
        assert machines.move_to(second) is second
        client.turn_to(second)
        client.until_acknowledged(5)

    check_acknowledged(second, client)
    assert second.paths.epoch_file.read_text() == f"{len(STEPS)} {second.name}\n"
    if is_dead:
        assert first.up().code == 0
    machines.until_same(second, first, third)
    assert not any(find_daemon(first.paths, name) for name in MASTER_DAEMONS)
