"""Three machines with systemd and an etcd: the mastership moves by itself, and an operator moves it.

The tests share the machines, and move the master; each leaves all three running, with equal copies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.etcds.etcd import EtcdBinary
from tests.support.wait import wait_until
from tests.systemd.containers.layers import Layers
from tests.systemd.engine import PATIENCE_S
from tests.systemd.etcd import settings, start_etcd
from tests.systemd.machines import Machines, booted, make_cluster
from tests.systemd.remotecommand import RemoteCommand

_OF_MASTER: Final = ("wconfd", "forkserver", "luxid")


@pytest.fixture(scope="module")
def running(tree: Layers, place: Path, etcd_binary: EtcdBinary) -> Iterator[Machines]:
    with booted(tree, place) as machines:
        start_etcd(machines, etcd_binary)
        make_cluster(machines, settings(machines))
        yield machines


@pytest.fixture
def machines(running: Machines) -> Machines:
    master = running.until_master()
    running.until_copied(master)
    running.until_fit(master)
    return running


def check_replicas(machines: Machines, master: str) -> None:
    """Each other machine waits, by systemd's words too, for its turn."""
    for name in machines.others(master):
        for daemon in _OF_MASTER:
            machines[name].until(daemon, "ActiveState", "inactive")
        machines[name].until_active("noded", "keeperd")
        assert machines[name].container.check("systemctl --failed --no-legend").strip() == ""


def test_another_machine_follows_by_itself_when_the_master_loses_its_power(machines: Machines) -> None:
    old = machines.until_master()
    third = machines.others(old)[1]
    command = RemoteCommand(machines, old, third)
    command.until_begun()
    held = machines[old].job("--hold --cwd /", "true")
    machines[old].container.cut_power()

    new = machines.until_master()

    assert new != old
    command.master = new
    assert command.output_at_end()[-1] == "ended"
    machines[new].container.check(f"gnt-job release {held}")
    assert machines[new].until_ended([held]) == {held: "success"}
    machines[old].container.boot()
    machines[old].until_active("noded", "keeperd")
    machines.until_copied(new)
    assert machines.until_master() == new
    check_replicas(machines, new)


def test_a_master_that_is_switched_off_hands_the_mastership_over(machines: Machines) -> None:
    old = machines.until_master()
    held = machines[old].job("--hold --cwd /", "true")
    machines[old].container.power_off()

    new = machines.until_master()

    assert new != old
    machines[new].container.check(f"gnt-job release {held}")
    assert machines[new].until_ended([held]) == {held: "success"}
    machines[old].container.boot()
    machines.until_copied(new)
    check_replicas(machines, new)


def test_a_killed_keeperd_costs_no_acknowledged_job(machines: Machines) -> None:
    old = machines.until_master()
    held = machines[old].job("--hold --cwd /", "true")
    luxid = str(machines[old].pid("luxid"))

    machines[old].container.check(f"kill -9 {machines[old].pid('keeperd')}")
    wait_until(
        lambda: machines[old].container.shown("gantry-luxid.service", "MainPID") != luxid,
        what="the end of what ran under the lease",
        timeout_s=PATIENCE_S,
    )

    master = machines.until_master()
    machines[master].container.check(f"gnt-job release {held}")
    assert machines[master].until_ended([held]) == {held: "success"}
    machines.until_copied(master)
    check_replicas(machines, master)


def test_a_switchover_fails_no_job(machines: Machines) -> None:
    old = machines.until_master()
    new, third = machines.others(old)
    command = RemoteCommand(machines, old, third)
    command.until_begun()
    job = machines[old].job("--cwd /", "sleep 2")

    machines[old].container.check(f"gantry cluster switchover {new}")

    assert machines.until_master() == new
    assert machines[new].until_ended([job]) == {job: "success"}
    command.master = new
    assert command.output_at_end()[-1] == "ended"
    machines.until_copied(new)
    check_replicas(machines, new)
