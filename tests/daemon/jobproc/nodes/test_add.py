"""OP_NODE_ADD with real node daemons (opcodes.md 4; noded.md 3)."""

from collections.abc import Iterator
from typing import Any

import pytest

from common.nodes.certificates import digest_of, make_cluster_certificate, make_node_certificate, write_certificate
from protocol.wconfd.changes import UpdateCluster
from protocol.wconfd.config import ReadConfig
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.machines.nodes import NOW
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, as its start is most of their time; each test adds nodes of its own."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        yield fleet


def started(fleet: Fleet) -> FleetNode:
    node = fleet.new_node()
    node.start()
    return node


def add(fleet: Fleet, node: FleetNode, **parameters: object) -> tuple[str, Any, list[str]]:
    """Add the node by a job; returns its state, its result and the lines of its log."""
    op = {"OP_ID": "OP_NODE_ADD", "node_name": node.name, "primary_ip": node.ip, **parameters}
    return ended(fleet.master, fleet.master.submit(op))


def ended(master: Cluster, job_id: int) -> tuple[str, Any, list[str]]:
    master.wait(job_id)
    (status, (result,), (log,)) = master.job(job_id, "status", "opresult", "oplog")
    return status, result, [entry[3] for entry in log]


def refusal(done: tuple[str, Any, list[str]]) -> str:
    status, result, _ = done
    assert status == "error"
    return str(result[1][0])


def nodes_by_name(fleet: Fleet) -> dict[str, dict[str, Any]]:
    config: Any = fleet.master.wconf(ReadConfig())
    return {node["name"]: node for node in config["nodes"].values()}


def certificates(fleet: Fleet) -> dict[str, str]:
    config: Any = fleet.master.wconf(ReadConfig())
    found: dict[str, str] = config["cluster"]["candidate_certs"]
    return found


def test_two_new_nodes_become_candidates_with_queue_and_configuration_byte_for_byte(fleet: Fleet) -> None:
    fleet.master.wait(fleet.master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01}))
    added = [started(fleet), started(fleet)]

    for node in added:
        assert add(fleet, node) == ("success", None, [f"node '{node.name}' becomes a master candidate"])

    fleet.until_same(*added)
    fleet.until_same_queue(*added)
    for node in added:
        found = nodes_by_name(fleet)[node.name]
        assert found["master_candidate"]
        assert found["powered"]
        assert (found["primary_ip"], found["secondary_ip"], found["serial_no"]) == (node.ip, node.ip, 1)
        assert certificates(fleet)[found["uuid"]] == digest_of(node.paths.client_pem.read_bytes())


def test_a_node_is_added_by_one_change_of_the_configuration(fleet: Fleet) -> None:
    before: Any = fleet.master.wconf(ReadConfig())
    node = started(fleet)

    add(fleet, node, ndparams={"spindle_count": "3"}, vm_capable=False)

    after: Any = fleet.master.wconf(ReadConfig())
    assert after["serial_no"] == before["serial_no"] + 1
    assert after["cluster"]["serial_no"] == before["cluster"]["serial_no"] + 1
    found = nodes_by_name(fleet)[node.name]
    assert (found["ndparams"], found["vm_capable"]) == ({"spindle_count": 3}, False)


def test_a_node_that_is_not_master_capable_gets_ssconf_alone(fleet: Fleet) -> None:
    node = started(fleet)

    assert add(fleet, node, master_capable=False)[0] == "success"

    names = node.paths.ssconf_file("node_list")
    wait_until(lambda: names.exists() and node.name in names.read_text(), what="the node has ssconf")
    assert not node.paths.config_data.exists()
    assert nodes_by_name(fleet)[node.name]["uuid"] not in certificates(fleet)


def test_a_node_beyond_the_size_of_the_pool_is_an_ordinary_one(fleet: Fleet) -> None:
    config: Any = fleet.master.wconf(ReadConfig())
    size = sum(node["master_candidate"] for node in config["nodes"].values()) + 1
    assert fleet.master.wconf(UpdateCluster({**config["cluster"], "candidate_pool_size": size}))
    first, second = started(fleet), started(fleet)

    assert add(fleet, first)[2] == [f"node '{first.name}' becomes a master candidate"]
    assert add(fleet, second)[2] == []

    found = nodes_by_name(fleet)
    assert [found[node.name]["master_candidate"] for node in (first, second)] == [True, False]
    config = fleet.master.wconf(ReadConfig())
    assert fleet.master.wconf(UpdateCluster({**config["cluster"], "candidate_pool_size": 10}))


def test_a_name_or_an_address_that_is_there_is_refused(fleet: Fleet) -> None:
    first, second = started(fleet), started(fleet)
    assert add(fleet, first)[0] == "success"

    text = refusal(add(fleet, first))
    assert text == f"node '{first.name}' is in the cluster already; take it anew with --readd"
    text = refusal(add(fleet, second, primary_ip=first.ip))
    assert text == f"node '{first.name}' has the address {first.ip} already"
    assert refusal(add(fleet, second, group="other")) == "there is no node group 'other'"
    assert second.name not in nodes_by_name(fleet)


def test_a_node_that_does_not_reply_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()

    text = refusal(add(fleet, node))

    assert text.startswith(f"node '{node.name}' at {node.ip}:")
    assert text.endswith("is its node daemon running there (gantry-noded), and is the address right?")
    assert node.name not in nodes_by_name(fleet)


def test_a_node_of_another_cluster_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()
    foreign = make_cluster_certificate(NOW)
    write_certificate(node.paths.server_pem, foreign)
    write_certificate(node.paths.client_pem, make_node_certificate(foreign, node.name, NOW))
    node.start()

    text = refusal(add(fleet, node))

    assert text.endswith("it belongs to another cluster or to none; let it join this one first: gantry join")
    assert node.name not in nodes_by_name(fleet)


def test_a_node_that_obeys_callers_of_the_past_is_refused(fleet: Fleet) -> None:
    node = fleet.new_node()
    node.paths.ssconf_file("master_candidates_certs").write_text("uuid=00:11\n")
    node.start()

    text = refusal(add(fleet, node))

    assert "remove the file 'ssconf_master_candidates_certs' there" in text


def test_a_node_taken_anew_loses_its_flags_and_brings_its_new_certificate(fleet: Fleet) -> None:
    node = started(fleet)
    add(fleet, node)
    fleet.change_node(node, master_candidate=False, offline=True)
    write_certificate(node.paths.client_pem, make_node_certificate(node.paths.server_pem.read_bytes(), node.name, NOW))

    assert add(fleet, node, readd=True)[0] == "success"

    found = nodes_by_name(fleet)[node.name]
    assert (found["master_candidate"], found["offline"]) == (True, False)
    assert certificates(fleet)[found["uuid"]] == digest_of(node.paths.client_pem.read_bytes())
    fleet.until_same(node)


def test_what_cannot_be_taken_anew_is_refused(fleet: Fleet) -> None:
    node = started(fleet)

    assert refusal(add(fleet, node, readd=True)) == f"node '{node.name}' is not in the cluster; add it without --readd"
    text = refusal(add(fleet, node, readd=True, node_name="node1.test"))
    assert text == "node 'node1.test' is the master, which cannot be taken anew"


def test_a_dry_run_checks_all_and_adds_nothing(fleet: Fleet) -> None:
    there, away = started(fleet), fleet.new_node()

    assert add(fleet, there, dry_run=True)[0] == "success"
    assert add(fleet, away, dry_run=True)[0] == "error"

    assert not {there.name, away.name} & nodes_by_name(fleet).keys()
