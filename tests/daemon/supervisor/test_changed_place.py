"""The supervisor runs the daemons of the node's place, and follows when it changes (DESIGN 12; masterfailover.md 3)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.system.running import find_daemon, find_supervisor
from tests.cli.command import run
from tests.support.machines.nodes import HOST, NAME, Node
from tests.support.sockets.ports import free_port
from tests.support.wait import wait_until

MASTER = ["wconfd", "forkserver", "luxid"]
NO_CONFD = '[confd]\nenabled = "no"'


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node that is not the master, under its supervisor."""
    with Node(tmp_path) as node:
        # by the configuration it is the master, and by ssconf it is not yet
        config = node.paths.config_data
        config.write_text(config.read_text().replace("node1.test", NAME))
        settings = tmp_path / "gantry.toml"
        text = settings.read_text()
        assert text.startswith(NO_CONFD)
        settings.write_text(f'[confd]\naddress = "{HOST}"\nport = {free_port()}{text.removeprefix(NO_CONFD)}')
        started = run("gantry", "--root", tmp_path, "up", "--detach")
        try:
            assert [line.split()[0] for line in started.out.splitlines()] == ["noded"]
            yield node
        finally:
            run("gantry", "--root", tmp_path, "down")


def running(node: Node) -> list[str]:
    return [name for name in MASTER if find_daemon(node.paths, name)]


def test_the_daemons_of_a_master_start_and_stop_with_its_role(node: Node) -> None:
    refused = node.call("node_start_master_daemons", [True])
    assert not refused[0]
    assert "not the master" in refused[1]
    supervisor, noded = find_supervisor(node.paths), find_daemon(node.paths, "noded")

    node.call("write_ssconf_files", [{"master_node": [NAME]}])
    assert not node.call("node_stop_master", [])[0]
    assert node.call("node_start_master_daemons", [True]) == [True, None]
    wait_until(lambda: running(node) == MASTER, what="the daemons of the master run", state=lambda: running(node))
    wait_until(lambda: run("gantry", "--root", node.root, "status").code == 0, what="all are ready")

    node.call("write_ssconf_files", [{"master_node": ["node9.test"]}])
    assert node.call("node_stop_master", []) == [True, None]
    assert running(node) == []
    assert node.call("node_stop_master", []) == [True, None]
    # neither was restarted
    assert (find_supervisor(node.paths), find_daemon(node.paths, "noded")) == (supervisor, noded)


def test_a_node_that_becomes_a_candidate_answers_questions_until_it_is_none_any_more(node: Node) -> None:
    node.call("write_ssconf_files", [{"master_candidates": ["node9.test", NAME]}])
    wait_until(lambda: find_daemon(node.paths, "confd"), what="confd runs")

    node.call("write_ssconf_files", [{"master_candidates": ["node9.test"]}])
    wait_until(lambda: not find_daemon(node.paths, "confd"), what="confd has ended")
