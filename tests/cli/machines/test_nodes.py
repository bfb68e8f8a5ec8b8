"""`gnt-node` from end to end: real daemons of a master and its nodes (cli.md 1; opcodes.md 4)."""

import json
from collections.abc import Iterator

import pytest

from common.system.running import find_daemon, find_supervisor
from tests.cli.command import Ended, run
from tests.cli.verbs.gantry.test_completion import complete
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One cluster for all tests, since its start takes most of their time: node2 and node3 are candidates."""
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        fleet.set_pool_size(50)
        for _ in range(2):
            added(fleet)
        yield fleet


def added(fleet: Fleet) -> FleetNode:
    """A new node, added by the program."""
    new = fleet.start_node()
    ended = node(fleet, "add", "--primary-ip", new.ip, new.name)
    assert (ended.code, ended.out) == (0, "")
    return new


def node(fleet: Fleet, *words: object) -> Ended:
    return run("gnt-node", "--root", fleet.master.root, *words)


def roles(fleet: Fleet) -> dict[str, str]:
    """Role by name, as the list tells it."""
    listed = node(fleet, "list", "--no-headers", "--separator", "=", "-o", "name,role")
    assert (listed.code, listed.err) == (0, "")
    return dict(line.split("=") for line in listed.out.splitlines())


def test_added_nodes_are_candidates_with_queue_and_configuration_byte_for_byte(fleet: Fleet) -> None:
    first, second = added(fleet), added(fleet)

    assert roles(fleet).items() >= {"node1.test": "M", first.name: "C", second.name: "C"}.items()
    fleet.until_same(first, second)
    fleet.until_same_queue(first, second)


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
    fleet.until_same(fleet.nodes[1])


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
    assert node(fleet, "modify", "--node-parameters", "ssh_port=2222", "node2").code == 0

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
    fleet.set_pool_size(len(fleet.certificates()) + 1)
    dead, spare = added(fleet), added(fleet)
    assert roles(fleet).items() >= {dead.name: "C", spare.name: "R"}.items()
    dead.kill()

    refused = node(fleet, "modify", "--offline=yes", dead.name)
    moved = node(fleet, "modify", "--offline=yes", "--auto-promote", dead.name)

    assert refused.code == 1
    assert "add --auto-promote to promote others" in refused.err
    assert moved.code == 0
    assert f"node '{spare.name}' becomes a master candidate" in moved.err
    assert roles(fleet).items() >= {dead.name: "O", spare.name: "C"}.items()
    fleet.until_same(spare)
    fleet.until_same_queue(spare)
    removed = node(fleet, "remove", dead.name)
    assert removed.code == 0
    assert f"warning: node '{dead.name}' has left, but keeps its files" in removed.err
    assert dead.name not in roles(fleet)
    fleet.set_pool_size(50)


def test_a_wrong_word_is_refused_before_anything_is_submitted(fleet: Fleet) -> None:
    assert node(fleet, "modify", "--offline=perhaps", "node3").code == 2
    parameters = node(fleet, "modify", "--node-parameters", "ssh_port", "node3")
    assert parameters.code == 2
    assert "'ssh_port' has no value; write name=value, several with commas" in parameters.err
    assert node(fleet, "modify", "node3").err.startswith("error: ")


def test_on_a_removed_node_nothing_goes_on(fleet: Fleet) -> None:
    new = fleet.new_node()
    assert run("gantry", "--root", new.cluster.root, "up", "--detach").code == 0
    try:
        assert node(fleet, "add", "--primary-ip", new.ip, new.name).code == 0
        fleet.until_same(new)

        assert node(fleet, "remove", new.name) == Ended(0, "", "")

        wait_until(lambda: find_supervisor(new.paths) is None, what="the supervisor of the node has ended")
        assert find_daemon(new.paths, "noded") is None
        assert not new.paths.server_pem.exists()
    finally:
        run("gantry", "--root", new.cluster.root, "down")


def test_names_of_nodes_complete(fleet: Fleet) -> None:
    offered = complete("gnt-node", "--root", fleet.master.root, "info", "node1")

    assert offered == ["node1.test"]
    assert "--auto-promote" in complete("gnt-node", "modify", "--auto")
