"""OP_NODE_REMOVE with real node daemons (opcodes.md 4; noded.md 6)."""

from collections.abc import Iterator

import pytest

from common.locks import Owner
from protocol.luxi.daemon import CheckQueueCopies
from protocol.wconfd.changes import AddInstance
from tests.cli.command import run
from tests.support.configs import instance_json
from tests.support.machines.fleet import Ended, Fleet, FleetNode
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, since its start takes most of their time."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        fleet.set_pool_size(50)
        yield fleet


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A cluster in which nothing is wrong, before a test."""
    with Fleet(tmp_path_factory.mktemp("sound"), 0) as fleet:
        fleet.master.start()
        fleet.master.start("noded")
        fleet.set_pool_size(50)
        yield fleet


def joined(fleet: Fleet) -> FleetNode:
    node = fleet.start_node()
    assert fleet.carry_out("OP_NODE_ADD", node_name=node.name, primary_ip=node.ip).status == "success"
    return node


def remove(fleet: Fleet, name: str) -> Ended:
    return fleet.carry_out("OP_NODE_REMOVE", node_name=name)


def test_a_removed_node_forgets_the_cluster_and_its_certificate_counts_no_more(fleet: Fleet) -> None:
    node = joined(fleet)
    fleet.until_same(node)

    assert remove(fleet, node.name) == Ended("success", None, ())

    assert node.name not in fleet.nodes_by_name()
    assert node.name not in fleet.certificates()
    noded = node.cluster.daemons["noded"]
    wait_until(lambda: noded.poll() is not None, what="the node daemon has ended")
    assert not [path for path in node.paths.data.iterdir() if path.is_file()]
    certificates = fleet.master.paths.ssconf_file("master_candidates_certs")
    wait_until(
        lambda: len(certificates.read_text().splitlines()) == len(fleet.certificates()), what="ssconf lacks it, too"
    )


def test_nothing_is_needed_of_a_dead_node(fleet: Fleet) -> None:
    node = joined(fleet)
    node.kill()

    done = remove(fleet, node.name)

    (text,) = done.log
    assert done.status == "success"
    assert text.startswith(f"warning: node '{node.name}' has left, but keeps its files of the cluster, keys included: ")
    assert node.name not in fleet.nodes_by_name()


def test_a_node_that_is_offline_is_not_called(fleet: Fleet) -> None:
    node = joined(fleet)
    fleet.change_node(node, offline=True, master_candidate=False)

    (text,) = remove(fleet, node.name).log

    assert text.endswith("it is marked offline and was not told")
    assert node.cluster.daemons["noded"].poll() is None


def test_another_node_takes_the_place_of_a_removed_candidate(fleet: Fleet) -> None:
    fleet.set_pool_size(2)
    first, dead, living = joined(fleet), joined(fleet), joined(fleet)
    assert first.name in fleet.certificates()
    dead.kill()
    fleet.until_same(first)

    done = remove(fleet, first.name)

    assert done.status == "success"
    assert done.log[0].startswith(f"warning: node '{dead.name}' cannot become a master candidate: ")
    assert done.log[1:] == (f"node '{living.name}' becomes a master candidate",)
    assert set(fleet.certificates()) == {"node1.test", living.name}
    fleet.until_same(living)
    fleet.until_same_queue(living)
    fleet.set_pool_size(50)


def test_the_master_and_nodes_with_instances_stay(fleet: Fleet) -> None:
    node = joined(fleet)
    uuid = fleet.nodes_by_name()[node.name]["uuid"]
    assert fleet.master.wconf(AddInstance(instance_json("i1", primary_node=uuid), Owner(1, "none"), replace=False))

    assert remove(fleet, "node1").refusal == "node 'node1.test' is the master; move the master to another node first"
    text = remove(fleet, node.name).refusal
    assert text == f"node '{node.name}' has instances: i1.test; move or remove them first"
    assert remove(fleet, "node99").refusal == "there is no node 'node99'"


@pytest.mark.parametrize("state", ["living", "dead", "offline"])
def test_verify_is_clean_after_a_node_was_removed(sound: Fleet, state: str) -> None:
    node = joined(sound)
    sound.until_same(node)
    sound.until_same_queue(node)
    if state == "dead":
        node.kill()
    if state == "offline":
        sound.change_node(node, offline=True, master_candidate=False)

    assert remove(sound, node.name).status == "success"

    # at once, and when the removal has reached all that follow the configuration
    for _ in range(2):
        verified = run("gnt-cluster", "--root", sound.master.root, "verify")
        assert (verified.code, node.name in verified.out + verified.err) == (0, False), verified.out + verified.err
        wait_until(lambda: sound.master.luxi(CheckQueueCopies()) is not None, what="luxid compares")
    told = run("gantry", "--root", sound.master.root, "status", "--check")
    assert node.name not in told.out + told.err, told
