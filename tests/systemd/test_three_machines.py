"""Three machines, each with a systemd of its own: what one of them does or suffers, the others and the jobs take well.

The tests share the machines, and move the master; each leaves all three running, with equal copies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.wait import wait_until
from tests.systemd.containers.layers import Layers
from tests.systemd.engine import PATIENCE_S
from tests.systemd.machines import NAMES, Machines, roles, three_machines
from tests.systemd.nextversion import NAME, upgrade
from tests.systemd.remotecommand import RemoteCommand

_SETTINGS: Final = '[cluster]\nreplication = "nodes"\n'
_OF_MASTER: Final = ("wconfd", "forkserver", "luxid")
_OF_ALL: Final = ("noded", "confd", "mond")


@pytest.fixture(scope="module")
def running(tree: Layers, place: Path) -> Iterator[Machines]:
    with three_machines(tree, place, _SETTINGS) as machines:
        yield machines


@pytest.fixture
def machines(running: Machines) -> Machines:
    running.until_copied(running.until_master())
    return running


def test_machines_join_by_the_command_that_the_master_prints_and_systemd_runs_their_daemons(
    machines: Machines,
) -> None:
    master = machines.master()

    assert roles(machines[master]) == {name: "M" if name == master else "C" for name in NAMES}
    for name in NAMES:
        machines[name].until_active(*_OF_ALL)
        assert machines[name].container.check("systemctl is-enabled gantry.target").strip() == "enabled"
    for name in machines.others(master):
        container = machines[name].container
        assert container.check("systemctl --failed --no-legend").strip() == ""
        for daemon in _OF_MASTER:
            machines[name].until(daemon, "ActiveState", "inactive")
        assert f"this node is not the master; {master} is" in container.run("gantry status").output


def test_a_command_on_a_node_has_its_output_group_and_limits_and_outlives_the_node_daemon(machines: Machines) -> None:
    master = machines.master()
    node = machines.others(master)[0]
    command = RemoteCommand(machines, master, node, "--ulimit nofile=77 --nice 7")
    command.until_begun()
    pid = command.pid()
    noded, restarts = machines[node].pid("noded"), machines[node].restarts("noded")

    machines[node].container.check(f"kill -9 {noded}")
    wait_until(lambda: machines[node].restarts("noded") > restarts, what="the restart of noded", timeout_s=PATIENCE_S)

    machines[node].until_active("noded")
    assert command.pid() == pid
    said = command.output_at_end()
    assert said[0] == f"node={node} files=77 nice=7"
    assert said[-1] == "ended"
    assert "gantry-noded.service/gantry-" in command.groups


def test_a_command_on_a_node_ends_at_its_memory_limit_and_says_so(machines: Machines) -> None:
    master = machines[machines.master()]
    node = machines.others(machines.master())[0]

    job = master.job(f"--node {node} --memory 64M", "python3 -c 'bytearray(900 << 20)'")

    assert master.until_ended([job]) == {job: "error"}
    assert "memory" in master.info(job).lower()


def test_all_candidates_have_the_queue_and_the_configuration(machines: Machines) -> None:
    master = machines.master()
    held = machines[master].job("--hold --cwd /", "true")

    machines.until_copied(master)

    said = machines[master].container.check("gnt-cluster verify")
    others = ", ".join(machines.others(master))
    assert f"same on {others}" in said
    sums = {
        machines[name].container.check(f"cat /var/lib/gantry/config.data /var/lib/gantry/queue/job-{held} | md5sum")
        for name in NAMES
    }
    assert len(sums) == 1
    machines[master].container.check(f"gnt-job cancel {held}")


def test_another_machine_follows_a_master_that_lost_its_power_and_that_comes_back_as_a_candidate(
    machines: Machines,
) -> None:
    old = machines.master()
    new, third = machines.others(old)
    command = RemoteCommand(machines, old, third)
    command.until_begun()
    held = machines[old].job("--hold --cwd /", "true")
    machines[old].container.cut_power()

    machines[new].container.check("gnt-cluster master-failover --yes-do-it")

    machines[new].until_active(*_OF_MASTER)
    command.master = new
    assert command.output_at_end()[-1] == "ended"
    machines[new].container.check(f"gnt-job release {held}")
    assert machines[new].until_ended([held, command.job]) == {held: "success", command.job: "success"}
    machines[old].container.boot()
    machines[old].until_active("noded")
    for daemon in _OF_MASTER:
        machines[old].until(daemon, "ActiveState", "inactive")
        assert machines[old].container.shown(f"gantry-{daemon}", "Result") == "success"
    wait_until(
        lambda: machines[old].container.shown("gantry-master.path", "SubState") == "waiting",
        what="systemd to wait for the mastership",
        timeout_s=PATIENCE_S,
    )
    assert machines.until_master() == new
    machines.until_copied(new)


def test_the_master_moves_back_to_a_machine_whose_systemd_waits_for_that(machines: Machines) -> None:
    old = machines.master()
    new = machines.others(old)[0]

    machines[new].container.check("gnt-cluster master-failover --yes-do-it")

    machines[new].until_active(*_OF_MASTER)
    for daemon in _OF_MASTER:
        machines[old].until(daemon, "ActiveState", "inactive")
    assert machines.until_master() == new
    assert machines[new].container.check("gnt-job run --wait --cwd / -- hostname").splitlines()[-1] == new


def test_one_machine_after_the_other_is_upgraded_and_the_old_and_the_new_talk(machines: Machines) -> None:
    old = machines.master()
    new, third = machines.others(old)
    command = RemoteCommand(machines, old, third)
    command.until_begun()

    for name in (third, new):
        upgrade(machines[name].container)
        machines[name].until_active(*_OF_ALL)
        machines.until_copied(old)
        # a master of the old version, a node of the new one
        job = machines[old].job(f"--node {name} --cwd /", "true")
        assert machines[old].until_ended([job]) == {job: "success"}
    pid = command.pid()
    machines[new].container.check("gnt-cluster master-failover --yes-do-it")
    machines[new].until_active(*_OF_MASTER)
    # a master of the new version, a node of the old one
    job = machines[new].job(f"--node {old} --cwd /", "true")
    assert machines[new].until_ended([job]) == {job: "success"}
    upgrade(machines[old].container)
    machines[old].until_active(*_OF_ALL)

    assert machines.until_master() == new
    machines.until_copied(new)
    for name in NAMES:
        assert f"/versions/{NAME}/" in machines[name].container.check(f"cat /proc/{machines[name].pid('noded')}/maps")
    assert command.pid() == pid
    command.master = new
    assert command.output_at_end()[-1] == "ended"
