"""OP_NODE_ADD with real node daemons (opcodes.md 4; noded.md 3)."""

from collections.abc import Iterator
from typing import Any

import pytest

from common.nodes.certificates import digest_of, make_cluster_certificate, make_node_certificate, write_certificate
from protocol.wconfd.config import ReadConfig
from tests.support.machines.fleet import Ended, Fleet, FleetNode
from tests.support.machines.nodes import NOW
from tests.support.wait import wait_until

# candidates: more than any test adds
LARGE = 50


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, since its start takes most of their time; each test adds nodes of its own."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        fleet.set_pool_size(LARGE)
        yield fleet


def add(fleet: Fleet, node: FleetNode, **parameters: object) -> Ended:
    """Add the node by a job."""
    return fleet.carry_out("OP_NODE_ADD", **{"node_name": node.name, "primary_ip": node.ip, **parameters})


def test_two_new_nodes_become_candidates_with_queue_and_configuration_byte_for_byte(fleet: Fleet) -> None:
    fleet.master.wait(fleet.master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01}))
    added = [fleet.start_node(), fleet.start_node()]

    for node in added:
        assert add(fleet, node) == Ended("success", None, (f"node '{node.name}' becomes a master candidate",))

    fleet.until_same(*added)
    fleet.until_same_queue(*added)
    for node in added:
        found = fleet.nodes_by_name()[node.name]
        assert found["master_candidate"]
        assert found["powered"]
        assert (found["primary_ip"], found["secondary_ip"], found["serial_no"]) == (node.ip, node.ip, 1)
        assert fleet.certificates()[node.name] == digest_of(node.paths.client_pem.read_bytes())


def test_a_node_is_added_by_one_change_of_the_configuration(fleet: Fleet) -> None:
    before: Any = fleet.master.wconf(ReadConfig())
    node = fleet.start_node()

    add(fleet, node, ndparams={"spindle_count": "3"}, vm_capable=False)

    after: Any = fleet.master.wconf(ReadConfig())
    assert after["serial_no"] == before["serial_no"] + 1
    assert after["cluster"]["serial_no"] == before["cluster"]["serial_no"] + 1
    found = fleet.nodes_by_name()[node.name]
    assert (found["ndparams"], found["vm_capable"]) == ({"spindle_count": 3}, False)


def test_a_node_that_is_not_master_capable_gets_ssconf_alone(fleet: Fleet) -> None:
    node = fleet.start_node()

    assert add(fleet, node, master_capable=False).status == "success"

    names = node.paths.ssconf_file("node_list")
    wait_until(lambda: names.exists() and node.name in names.read_text(), what="the node has ssconf")
    assert not node.paths.config_data.exists()
    assert node.name not in fleet.certificates()


def test_a_node_beyond_the_size_of_the_pool_is_an_ordinary_one(fleet: Fleet) -> None:
    first, second = fleet.start_node(), fleet.start_node()
    fleet.set_pool_size(len(fleet.certificates()) + 1)
    try:
        assert add(fleet, first).log == (f"node '{first.name}' becomes a master candidate",)
        assert add(fleet, second).log == ()
    finally:
        fleet.set_pool_size(LARGE)

    found = fleet.nodes_by_name()
    assert [found[node.name]["master_candidate"] for node in (first, second)] == [True, False]


def test_a_name_or_an_address_that_is_there_is_refused(fleet: Fleet) -> None:
    first, second = fleet.start_node(), fleet.start_node()
    assert add(fleet, first).status == "success"

    text = add(fleet, first).refusal
    assert text == f"node '{first.name}' is in the cluster already; take it anew with --readd"
    text = add(fleet, second, primary_ip=first.ip).refusal
    assert text == f"node '{first.name}' has the address {first.ip} already"
    assert add(fleet, second, group="other").refusal == "there is no node group 'other'"
    assert second.name not in fleet.nodes_by_name()


def test_a_node_that_does_not_reply_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()

    text = add(fleet, node).refusal

    assert text.startswith(f"node '{node.name}' at {node.ip}:")
    assert text.endswith("is its node daemon running there (gantry-noded), and is the address right?")
    assert node.name not in fleet.nodes_by_name()


def test_a_node_of_another_cluster_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()
    foreign = make_cluster_certificate(NOW)
    write_certificate(node.paths.server_pem, foreign)
    write_certificate(node.paths.client_pem, make_node_certificate(foreign, node.name, NOW))
    node.start()

    text = add(fleet, node).refusal

    assert text.endswith("it belongs to another cluster or to none; let it join this one first: gantry join")
    assert node.name not in fleet.nodes_by_name()


def test_a_node_that_obeys_callers_of_the_past_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()
    node.paths.ssconf_file("master_candidates_certs").write_text("uuid=00:11\n")
    node.start()

    text = add(fleet, node).refusal

    assert "remove the file 'ssconf_master_candidates_certs' there" in text


def test_a_node_taken_anew_loses_its_flags_and_brings_its_new_certificate(fleet: Fleet) -> None:
    node = fleet.start_node()
    add(fleet, node)
    fleet.change_node(node, master_candidate=False, offline=True)
    write_certificate(node.paths.client_pem, make_node_certificate(node.paths.server_pem.read_bytes(), node.name, NOW))

    assert add(fleet, node, readd=True).status == "success"

    found = fleet.nodes_by_name()[node.name]
    assert (found["master_candidate"], found["offline"]) == (True, False)
    assert fleet.certificates()[node.name] == digest_of(node.paths.client_pem.read_bytes())
    fleet.until_same(node)


def test_what_cannot_be_taken_anew_is_refused(fleet: Fleet) -> None:
    node = fleet.start_node()

    assert add(fleet, node, readd=True).refusal == f"node '{node.name}' is not in the cluster; add it without --readd"
    text = add(fleet, node, readd=True, node_name="node1.test").refusal
    assert text == "node 'node1.test' is the master, which cannot be taken anew"


def test_a_dry_run_checks_all_and_adds_nothing(fleet: Fleet) -> None:
    there, away = fleet.start_node(), fleet.new_node()

    assert add(fleet, there, dry_run=True).status == "success"
    assert add(fleet, away, dry_run=True).status == "error"

    assert not {there.name, away.name} & fleet.nodes_by_name().keys()
