"""What the candidates say of a node, and how far its copies are behind."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from common.commands.cgroups import find_groups
from common.settingsfile import load_settings
from daemons.mond.collectors.commands import Commands
from daemons.mond.collectors.standing import Lag, NodeRoleCollector
from tests.support.machines.confdpeers import ConfdCluster
from tests.support.wait import wait_until


class Place:
    """A candidate that is up to date, and a node with a root of its own that asks it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "node"
        self.candidate = ConfdCluster(root / "candidate")
        self.node = ConfdCluster(self.root)
        for name, content in (("master_node", "node1.test\n"), ("master_candidates_ips", "127.0.0.1\n")):
            self.node.put(self.node.paths.ssconf_file(name), content.encode())
        self.candidate.start()

    def collect(self, kind: type[Lag] | type[NodeRoleCollector], name: str = "node2.test") -> Any:
        cluster = f'[cluster]\nreplication = "nodes"\nnode_name = "{name}"\n'
        self.node.cluster.configure(f"{cluster}[confd]\nport = {self.candidate.peer.port}\n")
        found = kind(load_settings(self.root)).collect()
        self.numbers = {number.name: number.value for number in found.numbers}
        assert found.status is not None
        assert isinstance(found.data, Mapping)
        return {**found.data, "status": found.status.to_wire()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("standing"))
    with place.candidate:
        yield place


def test_the_candidates_tell_the_role(place: Place) -> None:
    assert place.collect(NodeRoleCollector, "node1.test")["role"] == "master"
    drained, offline, unknown = (
        place.collect(NodeRoleCollector, name) for name in ("node3.test", "node2.test", "node9.test")
    )

    assert (drained["role"], drained["status"]["code"]) == ("drained", 1)
    assert (offline["role"], offline["status"]["code"]) == ("offline", 4)
    assert (unknown["role"], unknown["status"]["code"]) == (None, 2)
    assert "node9.test not found" in unknown["status"]["message"]


def test_a_configuration_behind_that_of_a_candidate_is_being_repaired(place: Place) -> None:
    same = place.collect(Lag)
    own = place.node.document["serial_no"]
    assert same["config"] == {"own": own, "newest": own}
    assert same["queue"] == {"own": 0, "behind": None}
    assert same["status"]["code"] == 0

    place.node.document["serial_no"] -= 2
    place.node.write()
    behind = place.collect(Lag)

    assert behind["config"] == {"own": own - 2, "newest": own}
    assert behind["status"]["code"] == 1
    assert place.numbers["gantry_node_config_behind"] == 2


def test_silence_of_luxid_on_the_master_leaves_the_rest(place: Place) -> None:
    told = place.collect(Lag, "node1.test")

    assert told["config"]["newest"] is not None
    assert told["status"]["code"] == 2


def test_commands_are_found_by_their_groups(tmp_path: Path) -> None:
    ConfdCluster(tmp_path)
    settings = load_settings(tmp_path)
    tree = find_groups("auto", settings.paths.run)
    if tree is None:
        pytest.skip("no control groups may be made here")
    group = tree.make("command-12.3.1.cg")
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        try:
            Path(group.folder, "cgroup.procs").write_text(str(sleeper.pid))
            data: Any = Commands(settings).collect().data
        finally:
            sleeper.kill()
    wait_until(lambda: group.remove() and not os.path.exists(group.folder), what="the group is empty")
    tree.remove_if_empty()
    (found,) = data["commands"]

    assert (found["job"], found["opcode"], found["from_master"], found["processes"]) == (12, 3, True, 1)
    assert found["memory"] > 0
