"""`gnt-node` from end to end: real daemons of a master and its nodes (cli.md 1; opcodes.md 4)."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.command import Ended, run
from tests.support.machines.fleet import Fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, which follow each other: its start takes most of their time."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        for _ in range(3):
            fleet.start_node()
        yield fleet


def node(fleet: Fleet, *words: object) -> Ended:
    return run("gnt-node", "--root", fleet.master.root, *words)


def roles(fleet: Fleet) -> dict[str, str]:
    """Role by name, as the list tells it."""
    listed = node(fleet, "list", "--no-headers", "--separator", "=", "-o", "name,role")
    assert (listed.code, listed.err) == (0, "")
    return dict(line.split("=") for line in listed.out.splitlines())


def test_two_nodes_are_added_and_have_queue_and_configuration_byte_for_byte(fleet: Fleet) -> None:
    for added in fleet.nodes[:2]:
        ended = node(fleet, "add", "--primary-ip", added.ip, added.name)
        assert (ended.code, ended.out) == (0, "")
        assert f"node '{added.name}' becomes a master candidate" in ended.err

    assert roles(fleet) == {"node1.test": "M", "node2.test": "C", "node3.test": "C"}
    fleet.until_same(*fleet.nodes[:2])
    fleet.until_same_queue(*fleet.nodes[:2])


def test_a_refusal_is_an_error_in_one_line(fleet: Fleet) -> None:
    again = node(fleet, "add", "--primary-ip", "127.0.0.2", "node2.test")
    unknown = node(fleet, "modify", "--drained=yes", "node9")

    assert (again.code, again.out) == (1, "")
    assert "node 'node2.test' is in the cluster already; take it anew with --readd" in again.err
    assert unknown.code == 1
    assert "there is no node 'node9'" in unknown.err


def test_a_changed_role_is_told_in_ganetis_form(fleet: Fleet) -> None:
    drained = node(fleet, "modify", "-D", "yes", "node3")

    assert drained == Ended(0, "Modified node node3\n - master_candidate -> False\n - drained -> True\n", "")
    assert roles(fleet)["node3.test"] == "D"
    back = node(fleet, "modify", "--drained=no", "--output", "json", "node3")
    assert json.loads(back.out.splitlines()[-1]) == {
        "node": "node3",
        "changes": [["master_candidate", "True"], ["drained", "False"]],
    }
    fleet.until_same(*fleet.nodes[:2])


def test_a_job_that_is_not_waited_for_is_named(fleet: Fleet) -> None:
    submitted = node(fleet, "modify", "--submit", "--node-parameters", "ssh_port=2222,cpu_speed=1.5", "node2")

    assert submitted.code == 0
    assert submitted.out == ""
    job_id = int(submitted.err.removeprefix("JobID: "))
    assert fleet.master.wait(job_id) == ["success"]
    printed = node(fleet, "modify", "--print-jobid", "--node-parameters", "cpu_speed=default", "node2")
    assert int(printed.out) > job_id
    assert fleet.nodes_by_name()["node2.test"]["ndparams"] == {"ssh_port": 2222}


def test_info_tells_all_that_is_configured(fleet: Fleet) -> None:
    told = node(fleet, "info", "node2")

    lines = told.out.splitlines()
    assert lines[:4] == [
        "- Node name: node2.test",
        "  primary ip: 127.0.0.2",
        "  secondary ip: 127.0.0.2",
        "  master candidate: True",
    ]
    assert "    ssh_port: 2222" in lines
    assert "    cpu_speed: default (1)" in lines
    (as_json,) = json.loads(node(fleet, "info", "--output", "json", "node2").out)
    assert (as_json["role"], as_json["custom_ndparams"]) == ("C", {"ssh_port": 2222})


def test_lists_take_names_globs_and_filters(fleet: Fleet) -> None:
    def names(*words: str) -> list[str]:
        ended = node(fleet, "list", "--no-headers", "-o", "name", *words)
        assert (ended.code, ended.err) == (0, "")
        return ended.out.split()

    assert names("node3", "node1.test") == ["node3.test", "node1.test"]
    assert names("*2*") == ["node2.test"]
    assert names('role == "M" or name =~ m/3/') == ["node1.test", "node3.test"]
    assert names("-F", "master") == ["node1.test"]
    header, *_ = node(fleet, "list").out.splitlines()
    assert header.split() == ["Node", "DTotal", "DFree", "MTotal", "MNode", "MFree", "Pinst", "Sinst"]
    unknown = node(fleet, "list", "-v", "-o", "name,shape", "node1")
    assert (unknown.code, unknown.out.split()[-1]) == (14, "(unknown)")
    assert "unknown field 'shape'" in unknown.err
    assert node(fleet, "list", "node9").code == 1
    assert "Primary" in node(fleet, "list-fields", "pip", "role").out
    offered = json.loads(node(fleet, "list", "--output", "json", "-o", "name,offline").out)
    assert offered[0] == {"name": "node1.test", "offline": False}


def test_a_dead_candidate_goes_offline_is_removed_and_another_node_takes_its_place(fleet: Fleet) -> None:
    fleet.set_pool_size(3)
    last = fleet.nodes[2]
    assert node(fleet, "add", "--primary-ip", last.ip, last.name).code == 0
    assert roles(fleet)[last.name] == "R"
    fleet.nodes[0].kill()

    refused = node(fleet, "modify", "--offline=yes", "node2")
    moved = node(fleet, "modify", "--offline=yes", "--auto-promote", "node2")

    assert refused.code == 1
    assert "add --auto-promote to promote others" in refused.err
    assert moved.code == 0
    assert roles(fleet) == {"node1.test": "M", "node2.test": "O", "node3.test": "C", "node4.test": "C"}
    fleet.until_same(*fleet.nodes[1:])
    fleet.until_same_queue(*fleet.nodes[1:])
    removed = node(fleet, "remove", "node2")
    assert removed.code == 0
    assert "warning: node 'node2.test' has left, but keeps its files" in removed.err
    assert "node2.test" not in roles(fleet)


def test_a_wrong_word_is_refused_before_anything_is_submitted(fleet: Fleet) -> None:
    assert node(fleet, "modify", "--offline=perhaps", "node3").code == 2
    parameters = node(fleet, "modify", "--node-parameters", "ssh_port", "node3")
    assert parameters.code == 2
    assert "'ssh_port' has no value; write name=value, several with commas" in parameters.err
    assert node(fleet, "modify", "node3").err.startswith("error: ")
