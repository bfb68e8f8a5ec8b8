"""Who holds the mastership, who takes it over, and what is told of it; with real processes (DESIGN 14, lease.md 7)."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.lease.records import Role
from protocol.blocking import BlockingClient
from protocol.keeperd import ClusterView, ReadKeeperdMetrics, ShowCluster, Switchover
from protocol.metrics import DaemonMetrics
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(module_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseFleet]:
    root: Path = tmp_path_factory.mktemp("fleet")
    with LeaseFleet(root, module_etcd, 2) as fleet:
        fleet.up()
        yield fleet


def other_than(fleet: LeaseFleet, candidate: Candidate) -> Candidate:
    (other,) = [each for each in fleet if each is not candidate]
    return other


def cluster_view(candidate: Candidate) -> ClusterView:
    with BlockingClient(candidate.paths.keeperd_socket, daemon="keeperd") as keeperd:
        return keeperd.call(ShowCluster())


def metrics(candidate: Candidate) -> DaemonMetrics:
    with BlockingClient(candidate.paths.keeperd_socket, daemon="keeperd") as keeperd:
        return keeperd.call(ReadKeeperdMetrics())


def whole_view(candidate: Candidate) -> ClusterView:
    """What it tells when it has heard of etcd in time; else a part of the view is missing."""
    found: list[ClusterView] = []

    def is_whole() -> bool:
        found[:] = [cluster_view(candidate)]
        return bool(found[0].history and found[0].etcd)

    wait_until(is_whole, what=f"{candidate.name} tells of etcd, too", state=lambda: found)
    return found[0]


def until_fit(candidate: Candidate) -> None:
    """Wait until this node may take over: the master has compared its files."""
    wait_until(
        lambda: cluster_view(candidate).state == "follow",
        what=f"{candidate.name} may take over",
        state=lambda: cluster_view(candidate).members,
    )


def health(fleet: LeaseFleet, candidate: Candidate, path: str, method: str = "GET") -> tuple[int, Any]:
    """Status and content of a health check."""
    ip = f"127.0.0.{candidate.name.removeprefix('node').removesuffix('.test')}"
    request = urllib.request.Request(f"http://{ip}:{fleet.health_port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            status, body = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    return status, json.loads(body) if body else None


def epoch_of(candidate: Candidate) -> int:
    grant = candidate.grant()
    return grant.fence.epoch if grant else 0


def test_one_node_serves_and_all_tell_of_it(fleet: LeaseFleet) -> None:
    while True:
        master = fleet.until_master()
        epoch = epoch_of(master)
        try:
            check_that_all_tell_of_it(fleet, master)
            return
        except AssertionError:
            # on a slow machine the short lease may have run out meanwhile
            if epoch_of(fleet.until_master()) == epoch:
                raise


def check_that_all_tell_of_it(fleet: LeaseFleet, master: Candidate) -> None:
    replica = other_than(fleet, master)
    until_fit(replica)
    view = whole_view(replica)

    assert not replica.pids("luxid", "wconfd", "forkserver")
    assert (view.asked, view.state, view.master) == (replica.name, "follow", master.name), view.members
    assert {member.name for member in view.members} == {master.name, replica.name}
    # one that was lost before it served is not written down
    assert (view.history[0].cause == "the first master") is (view.history[0].epoch == 1)
    assert view.history[-1].node == master.name
    assert [(etcd.is_leader, etcd.quota_bytes) for etcd in view.etcd] == [(True, 2**31)]
    assert cluster_view(master).valid_s is not None
    numbers = {each: metrics(each) for each in (master, replica)}
    assert [found.number("is_master") for found in numbers.values()] == [1, 0]
    assert all(found.number("mastership_epoch") == epoch_of(master) for found in numbers.values())
    assert numbers[master].number("lease_valid_seconds") > 0
    told: dict[str, object] = {}
    for candidate, path, status in [
        (master, "/master", 200),
        (master, "/replica", 503),
        (master, "/health", 200),
        (replica, "/master", 503),
        (replica, "/replica", 200),
        (replica, "/liveness", 200),
        (replica, "/nothing", 404),
    ]:
        got, told = health(fleet, candidate, path)
        assert (candidate.name, path, got) == (candidate.name, path, status), told
    assert health(fleet, master, "/master", "HEAD") == (200, None)
    assert health(fleet, master, "/master", "POST")[0] == 405
    status, told = health(fleet, master, "/master")
    assert (told["epoch"], told["master"]) == (epoch_of(master), master.name)


def test_a_switchover_moves_it_and_is_written_down(fleet: LeaseFleet) -> None:
    old = fleet.until_master()
    new = other_than(fleet, old)
    until_fit(new)

    job = old.cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "on_master": True, "on_nodes": []})
    # it is due when the first one ends, but must not begin where the daemons are about to end
    depends = [[job, ["success"]]]
    later = old.cluster.submit(
        {"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "on_master": True, "on_nodes": [], "depends": depends}
    )

    with BlockingClient(old.paths.keeperd_socket, daemon="keeperd") as keeperd:
        assert keeperd.call(Switchover(new.name, limit_s=60.0), timeout_s=90) == new.name

    assert fleet.until_master() is new
    assert new.cluster.wait(job, later) == ["success", "success"]
    assert not old.pids("luxid", "wconfd", "forkserver")
    wait_until(lambda: whole_view(new).history[-1].node == new.name, what="the switch-over is written down")
    assert whole_view(new).history[-1].cause == "switch-over, asked by root"


def test_a_switchover_back_at_once_waits_for_the_comparison_of_the_files(fleet: LeaseFleet) -> None:
    old = fleet.until_master()
    new = other_than(fleet, old)
    for node in (new, old):
        done = old.gantry("cluster", "switchover", node.name.removesuffix(".test"))
        assert done.code == 0, done

    assert fleet.until_master() is old


def test_the_daemons_end_when_keeperd_dies_and_another_node_takes_over(fleet: LeaseFleet) -> None:
    old = fleet.until_master()
    epoch = epoch_of(old)
    until_fit(other_than(fleet, old))

    old.kill("keeperd")

    new = fleet.until_master(above=epoch)
    assert epoch_of(new) > epoch
    if new is not old:
        # one that stood still at its deadline ends when it goes on
        wait_until(lambda: not old.pids("luxid", "wconfd", "forkserver"), what="the daemons have ended")


def test_another_node_takes_over_when_the_machine_dies(fleet: LeaseFleet) -> None:
    old = fleet.until_master()
    new = other_than(fleet, old)
    until_fit(new)

    old.crash()

    assert fleet.until_master(besides=old) is new
    assert cluster_view(new).master == new.name
    # its record goes with a lease of its own
    wait_until(
        lambda: [each.name for each in cluster_view(new).members if each.role is Role.SILENT] == [old.name],
        what="the dead node is told as silent",
        state=lambda: cluster_view(new).members,
    )
