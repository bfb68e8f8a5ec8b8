"""A node that believes to be the master, and is not: its daemons end by the others' votes (masterfailover.md 2)."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from common.daemons import MASTER_DAEMONS
from common.system.running import find_daemon, find_supervisor
from tests.support.machines.movablemaster import Machine, MovableMaster
from tests.support.wait import wait_until

WHY = "this node is not the master; node2.test is (by 2 of 3 nodes)"


@pytest.fixture
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovableMaster]:
    # a short name: the paths of sockets are limited
    with MovableMaster(tmp_path_factory.mktemp("m"), 3) as machines:
        yield machines


def vote(machines: MovableMaster, master: str) -> None:
    """Let the other nodes name this master."""
    for machine in machines:
        if machine.name != "node1.test":
            file = machine.paths.ssconf_file("master_node")
            file.unlink(missing_ok=True)
            file.write_text(f"{master}\n")


def masters_daemons(machine: Machine) -> list[str]:
    return [name for name in MASTER_DAEMONS if find_daemon(machine.paths, name)]


def test_an_old_master_that_comes_back_runs_its_node_daemon_alone_until_it_is_the_master_again(
    machines: MovableMaster,
) -> None:
    machines.up()
    old = machines["node1.test"]
    old.cluster.crash()
    vote(machines, "node2.test")

    up = old.up()
    status = old.gantry("status")

    assert up.code == 0
    assert [line.split(maxsplit=1)[0] for line in up.out.splitlines()] == ["noded", "wconfd", "forkserver", "luxid"]
    assert up.out.count(WHY) == 3
    assert (status.code, status.out.splitlines()[-1]) == (0, WHY)
    assert json.loads(old.gantry("status", "--output", "json").out)["not_master"] == WHY
    assert masters_daemons(old) == []
    log = old.cluster.log("wconfd")
    assert "votes.counted" in log
    assert f'daemon.failed reason="{WHY}"' in log

    vote(machines, "node1.test")
    supervisor = find_supervisor(old.paths)
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGUSR1)
    wait_until(lambda: len(masters_daemons(old)) == 3 and old.is_ready(), what="the daemons of the master run again")
    assert old.gantry("status").out.splitlines()[-1] != WHY


def test_a_master_that_is_killed_and_heard_of_another_one_meanwhile_does_not_use_its_epoch(
    machines: MovableMaster,
) -> None:
    old = machines["node1.test"]
    (old.paths.epoch_file).write_text("4 node2.test\n")

    for name in ("wconfd", "luxid", "forkserver"):
        with pytest.raises(AssertionError, match=r"ended with 11: .*node2.test has become it since, with epoch 4"):
            old.cluster.start(name)


def test_a_daemon_started_without_a_vote_says_so_and_only_if_that_is_confirmed(machines: MovableMaster) -> None:
    alone = machines["node1.test"]

    unconfirmed = alone.gantry("up", "--detach", "--no-voting")
    up = alone.gantry("up", "--detach", "--no-voting", "--yes-do-it")

    assert unconfirmed.code == 2
    assert "two nodes may be masters at a time" in unconfirmed.err
    assert up.code == 0
    assert masters_daemons(alone) == list(MASTER_DAEMONS)
    # the configuration's nodes are in ssconf now, so that its next start would ask them
    luxid = find_daemon(alone.paths, "luxid")
    assert luxid is not None
    os.kill(luxid.pid, signal.SIGKILL)
    wait_until(lambda: "votes.not_asked" in alone.cluster.log("luxid"), what="luxid is started again without a vote")
