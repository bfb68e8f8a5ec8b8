"""The configuration on other nodes, with real node daemons and certificates (noded.md 8; wconfd.md 7.5 and 7.9)."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.nodes.certificates import digest_of
from common.system.program import NOT_MASTER
from protocol.wconfd.changes import ChangeJobLimits, UpdateCluster
from protocol.wconfd.config import FlushConfig, GetObject, ListNodesBehind, NodeBehind
from tests.support.machines.fleet import Fleet, FleetNode, files
from tests.support.wait import wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 2) as fleet:
        yield fleet


def change(fleet: Fleet, number: int) -> None:
    assert fleet.master.wconf(ChangeJobLimits(number, None))


def check_there(fleet: Fleet, log_before: str, *nodes: FleetNode) -> None:
    """These nodes had everything when a change returned, unless wconfd has told that they were too slow for that."""
    have = {node.name: files(node.paths) == fleet.files_of_master() for node in nodes}
    slow = slow_ones(fleet, log_before)
    assert [name for name, has in have.items() if not has and name not in slow] == []
    fleet.until_same(*nodes)


def slow_ones(fleet: Fleet, log_before: str) -> set[str]:
    """The nodes that wconfd has not waited for since then."""
    log = fleet.master.log("wconfd").removeprefix(log_before)
    return {name for names in re.findall(r"config\.undistributed .*names=(\S+)", log) for name in names.split(",")}


def behind(fleet: Fleet) -> list[NodeBehind]:
    """Nodes to which a call has failed."""
    return [node for node in fleet.master.wconf(ListNodesBehind()) if node.reason]


def test_every_change_is_on_all_candidates_byte_for_byte(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)

    for number in range(30, 50):
        change(fleet, number)
    fleet.until_same(*fleet.nodes)

    here, there = (paths.config_data.stat() for paths in (fleet.master.paths, fleet.nodes[0].paths))
    assert (there.st_mode, there.st_uid, there.st_gid) == (here.st_mode, here.st_uid, here.st_gid)
    assert there.st_mtime == pytest.approx(here.st_mtime, abs=1e-3)
    assert stat.S_IMODE(fleet.nodes[0].paths.ssconf_file("node_list").stat().st_mode) == 0o444


def test_a_file_of_another_program_is_copied_as_it_is(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    fleet.master.kill("wconfd")
    path = fleet.master.paths.config_data
    tables = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps(dict(reversed(tables.items()))))

    fleet.master.start("wconfd")

    fleet.until_same(*fleet.nodes)


def test_a_node_that_becomes_the_master_sends_nothing_before_its_configuration_says_so(fleet: Fleet) -> None:
    path, own = fleet.master.paths.config_data, fleet.master
    tables = orjson.loads(path.read_bytes())
    tables["cluster"]["master_node"], before = fleet.nodes[0].name.partition(".")[0], tables["cluster"]["master_node"]
    path.write_bytes(orjson.dumps(tables))
    own.options["wconfd"] = ("--force-node", "--no-voting", "--yes-do-it")
    fleet.start()

    own.wconf(FlushConfig())

    assert [node.paths.config_data.exists() for node in fleet.nodes] == [False, False]

    cluster: Mapping[str, Any] = own.wconf(GetObject("cluster"))
    assert own.wconf(UpdateCluster({**cluster, "master_node": before}))
    fleet.until_same(*fleet.nodes)


def test_new_nodes_learn_which_certificate_they_obey(fleet: Fleet) -> None:
    own = digest_of(fleet.master.paths.client_pem.read_bytes())

    assert [files(node.paths) for node in fleet.nodes] == [{}, {}]

    fleet.start()
    fleet.until_same(*fleet.nodes)

    certs = fleet.nodes[0].paths.ssconf_file("master_candidates_certs").read_text()
    assert [line.partition("=")[2] for line in certs.splitlines()] == [own]
    cluster: Any = fleet.master.wconf(GetObject("cluster"))
    assert own in cluster["candidate_certs"].values()


def test_a_change_of_the_candidates_is_on_the_nodes_when_it_returns(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    first, second = fleet.nodes
    log, list_of_first = fleet.master.log("wconfd"), first.paths.ssconf_file("master_candidates")

    fleet.change_node(first, master_candidate=False)

    assert list_of_first.read_text() == "node1.test\nnode3.test\n" or first.name in slow_ones(fleet, log)
    check_there(fleet, log, second)
    wait_until(lambda: list_of_first.read_text() == "node1.test\nnode3.test\n", what="the plain node has the list")
    # it keeps what it had, and gets no more of it
    kept = first.paths.config_data.read_bytes()
    change(fleet, 31)
    fleet.until_same(second)
    assert first.paths.config_data.read_bytes() == kept
    log = fleet.master.log("wconfd")

    fleet.change_node(first, master_candidate=True)

    check_there(fleet, log, first, second)


def test_a_killed_node_gets_the_latest_state_when_it_is_back(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    gone, other = fleet.nodes
    gone.kill()

    for number in range(30, 40):
        change(fleet, number)
    fleet.until_same(other)
    wait_until(lambda: behind(fleet), what="wconfd has noticed", state=lambda: behind(fleet))
    (told,) = behind(fleet)
    assert (told.name, told.lacks) == (gone.name, ("ssconf", "config.data"))
    # and it has lost all
    for path in (gone.paths.config_data, *gone.paths.data.glob("ssconf_*")):
        path.unlink()
    gone.start()

    fleet.until_same(gone, other)
    wait_until(lambda: not behind(fleet), what="wconfd knows that", state=lambda: behind(fleet))
    assert "config.copied_again" in fleet.master.log("wconfd")


def test_a_node_that_hangs_stalls_neither_changes_nor_other_nodes(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    hanging, other = fleet.nodes
    before = files(hanging.paths)
    hanging.freeze()

    for number in range(30, 60):
        change(fleet, number)
    fleet.until_same(other)
    log = fleet.master.log("wconfd")
    # returns although it has to be on the nodes
    fleet.change_node(other, vm_capable=False)
    assert hanging.name in slow_ones(fleet, "")
    check_there(fleet, log, other)
    assert files(hanging.paths) == before

    hanging.thaw()
    fleet.until_same(hanging, other)


def test_a_restarted_wconfd_sends_what_was_changed_without_it(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    first, _ = fleet.nodes
    first.paths.config_data.write_bytes(b"{}")
    fleet.master.kill("wconfd")

    fleet.master.start("wconfd")

    fleet.until_same(*fleet.nodes)


def test_a_flush_brings_back_what_a_node_has_lost(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    for node in fleet.nodes:
        for path in (node.paths.config_data, node.paths.ssconf_file("node_list")):
            path.unlink()
    log = fleet.master.log("wconfd")

    fleet.master.wconf(FlushConfig())

    check_there(fleet, log, *fleet.nodes)


def test_an_offline_node_gets_nothing_until_it_is_back(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    away, other = fleet.nodes
    fleet.change_node(away, offline=True, master_candidate=False)
    before = files(away.paths)

    change(fleet, 33)
    fleet.until_same(other)
    assert files(away.paths) == before
    log = fleet.master.log("wconfd")

    fleet.change_node(away, offline=False, master_candidate=True)

    check_there(fleet, log, away)


def test_a_master_that_a_node_has_seen_replaced_ends(fleet: Fleet) -> None:
    fleet.start()
    fleet.until_same(*fleet.nodes)
    first, _ = fleet.nodes
    before = files(first.paths)
    first.kill()
    first.paths.epoch_file.write_text("7\n")
    first.start()

    change(fleet, 31)

    wait_until(lambda: fleet.master.daemons["wconfd"].poll() is not None, what="wconfd has ended")
    assert fleet.master.daemons.pop("wconfd").returncode == NOT_MASTER
    assert "this node is no longer the master" in (fleet.master.root / "stderr-wconfd").read_text()
    assert files(first.paths) == before


def test_one_machine_imports_nothing_for_nodes(tmp_path: Path) -> None:
    code = (
        "import sys, daemons.wconfd.main; "
        "print([name for name in sys.modules if name.startswith(('protocol.noded', 'h11', 'cryptography'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
