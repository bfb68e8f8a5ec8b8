"""OP_NODE_SET_PARAMS with real node daemons, and the recorded jobs of Ganeti's (opcodes.md 4)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.wconfd.config import ReadConfig
from tests.support.configs import RECORDED
from tests.support.machines.fleet import Ended, Fleet

NODES = ("node2.test", "node3.test")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, since its start takes most of their time: node2 and node3 are candidates."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        for _ in NODES:
            node = fleet.start_node()
            fleet.carry_out("OP_NODE_ADD", node_name=node.name, primary_ip=node.ip)
        yield fleet


@pytest.fixture(autouse=True)
def _again_as_before(fleet: Fleet) -> Iterator[None]:
    """Both nodes are online candidates at the beginning of each test."""
    yield
    fleet.set_pool_size(10)
    for node in fleet.nodes:
        is_running = "noded" in node.cluster.daemons
        if not is_running:
            node.start()
        if is_running and node.name in fleet.certificates():
            continue
        fleet.carry_out("OP_NODE_ADD", node_name=node.name, primary_ip=node.ip, readd=True, master_capable=True)
    assert set(fleet.certificates()) == {"node1.test", *NODES}


def modify(fleet: Fleet, name: str, **parameters: object) -> Ended:
    return fleet.carry_out("OP_NODE_SET_PARAMS", node_name=name, **parameters)


def flags(fleet: Fleet, name: str) -> set[str]:
    node = fleet.nodes_by_name()[name]
    return {flag for flag in ("master_candidate", "drained", "offline") if node[flag]}


def recorded(name: str) -> dict[str, Any]:
    rows = map(json.loads, (RECORDED / "node-jobs.jsonl").read_text().splitlines())
    return next(row for row in rows if row["recording"] == name)


def replay(fleet: Fleet, name: str, **changes: object) -> None:
    """Carry out a recorded opcode as it was sent, and expect the recorded result."""
    row = recorded(name)
    op = {key: value for key, value in {**row["op"], **changes}.items() if key != "OP_ID"}

    done = fleet.carry_out(row["op"]["OP_ID"], **op)

    assert (done.status, done.result) == (row["status"], row["opresult"])


def test_recorded_changes_have_the_recorded_results(fleet: Fleet) -> None:
    replay(fleet, "client-node-modify", node_name="node1")
    assert fleet.nodes_by_name()["node1.test"]["ndparams"] == {"spindle_count": 2}
    replay(fleet, "client-vc-node-modify")
    replay(fleet, "client-vc-node-modify-2")


def test_a_drained_candidate_puts_its_configuration_aside_and_gets_all_again_when_it_returns(fleet: Fleet) -> None:
    node = fleet.nodes[1]
    fleet.until_same(node)

    done = modify(fleet, node.name, drained=True)

    assert done == Ended("success", [["master_candidate", "False"], ["drained", "True"]], ())
    assert flags(fleet, node.name) == {"drained"}
    assert node.name not in fleet.certificates()
    assert not node.paths.config_data.exists()
    fleet.master.wait(fleet.master.submit({"OP_ID": "OP_TEST_DELAY", "duration": 0.01}))
    done = modify(fleet, node.name, drained=False)
    assert done.log == (f"node '{node.name}' becomes a master candidate",)
    fleet.until_same(*fleet.nodes)
    fleet.until_same_queue(*fleet.nodes)


def test_a_dead_node_is_marked_offline_and_returns_only_when_it_replies(fleet: Fleet) -> None:
    node = fleet.nodes[0]
    node.kill()

    done = modify(fleet, node.name, offline=True)

    assert done == Ended("success", [["master_candidate", "False"], ["offline", "True"]], ())
    text = modify(fleet, node.name, offline=False).refusal
    assert text.startswith(f"node '{node.name}' at {node.ip}:")
    assert flags(fleet, node.name) == {"offline"}
    node.start()
    assert modify(fleet, node.name, offline=False).result == [["master_candidate", "True"], ["offline", "False"]]
    fleet.until_same(node)


def test_a_role_changes_in_one_change_of_the_configuration_with_the_certificates(fleet: Fleet) -> None:
    modify(fleet, "node2", master_candidate=False)
    fleet.set_pool_size(2)
    before: Any = fleet.master.wconf(ReadConfig())
    assert flags(fleet, "node2.test") == set()

    done = modify(fleet, "node3", master_candidate=False, auto_promote=True)

    after: Any = fleet.master.wconf(ReadConfig())
    assert done == Ended("success", [["master_candidate", "False"]], ("node 'node2.test' becomes a master candidate",))
    assert set(fleet.certificates()) == {"node1.test", "node2.test"}
    assert after["serial_no"] == before["serial_no"] + 1
    fleet.until_same(fleet.nodes[0])


def test_a_candidate_is_kept_while_another_node_could_take_its_place_unless_it_is_forced(fleet: Fleet) -> None:
    modify(fleet, "node2", master_candidate=False)
    fleet.set_pool_size(2)

    text = modify(fleet, "node3", offline=True).refusal
    assert text == (
        "without node 'node3.test' 1 of the 2 master candidates would be missing; add --auto-promote to promote others"
    )
    assert flags(fleet, "node3.test") == {"master_candidate"}
    assert modify(fleet, "node3", offline=True, force=True).status == "success"


def test_the_role_of_the_master_stays(fleet: Fleet) -> None:
    text = modify(fleet, "node1", offline=True).refusal

    assert text.startswith("node 'node1.test' is the master; its role changes only with the master")


def test_two_roles_or_no_change_are_refused(fleet: Fleet) -> None:
    text = modify(fleet, "node2", offline=True, drained=True).refusal
    assert text == "a node cannot be drained and offline at once; name one of them"
    assert modify(fleet, "node2").refusal == "there is nothing to change; name at least one parameter"


def test_a_node_that_does_not_reply_to_its_demotion_is_told_of(fleet: Fleet) -> None:
    node = fleet.nodes[0]
    node.kill()

    done = modify(fleet, node.name, master_candidate=False)

    assert done.status == "success"
    (text,) = done.log
    assert text.startswith(f"warning: node '{node.name}' keeps its copy of the configuration: ")


def test_a_second_address_begins_with_the_master_and_must_be_the_nodes_own(fleet: Fleet) -> None:
    fleet.master.start("noded")

    refused = modify(fleet, "node2", secondary_ip="127.0.1.2").refusal
    first = modify(fleet, "node1", secondary_ip="127.0.1.1", force=True)
    foreign = modify(fleet, "node2", secondary_ip="198.51.100.9").refusal
    second = modify(fleet, "node2", secondary_ip="127.0.1.2")

    assert refused.startswith("the nodes of this cluster have one address each; to change that, begin with the master")
    assert first.result == [["secondary_ip", "127.0.1.1"]]
    assert foreign == "node 'node2.test' does not have the address 198.51.100.9"
    assert second.result == [["secondary_ip", "127.0.1.2"]]
    assert modify(fleet, "node1", secondary_ip="127.0.0.1", force=True).status == "success"
    assert modify(fleet, "node2", secondary_ip="127.0.0.2").status == "success"


def test_what_changed_while_a_job_waited_for_its_locks_counts(fleet: Fleet, tmp_path: Path) -> None:
    gate, master = tmp_path / "gate", fleet.master
    os.mkfifo(gate)
    uuid = fleet.nodes_by_name()["node2.test"]["uuid"]
    holder = master.submit(
        {"OP_ID": "OP_RUN_COMMAND", "argv": ["cat", str(gate)], "locks": {f"node/{uuid}": "exclusive"}}
    )
    master.wait(holder, status="running")
    waiting = master.submit({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "node2", "drained": True})
    master.wait(waiting, status="waiting")

    fleet.change_node(fleet.nodes[0], tags=["changed"])
    gate.write_bytes(b"")

    assert master.wait(holder, waiting) == ["success", "success"]
    assert flags(fleet, "node2.test") == {"drained"}
    assert fleet.nodes_by_name()["node2.test"]["tags"] == ["changed"]
