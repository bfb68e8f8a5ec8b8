"""A node's place follows from its ssconf (DESIGN 12)."""

from pathlib import Path

import attrs
import pytest

from common.daemons import NodeKind
from common.nodes.mastership import note_not_master
from common.nodes.nodeplace import daemons_here, place_of, why_not_master
from common.paths import Paths
from common.settings import ClusterSettings, Settings
from tests.support.etcds.playedkeeper import PlayedKeeper


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return Settings(paths, cluster=ClusterSettings("nodes", "node1.test"))


def know(settings: Settings, master: str, *candidates: str) -> None:
    settings.paths.ssconf_file("master_node").write_text(f"{master}\n")
    settings.paths.ssconf_file("master_candidates").write_text("".join(f"{name}\n" for name in candidates))


@pytest.mark.parametrize(
    ("master", "candidates", "place"),
    [
        ("node1.test", ["node1.test", "node2.test"], NodeKind.MASTER),
        ("node2.test", ["node1.test", "node2.test"], NodeKind.CANDIDATES),
        ("node2.test", ["node2.test"], NodeKind.ALL),
        ("NO MASTER", [], NodeKind.ALL),
    ],
)
def test_ssconf_names_the_master_and_the_candidates(
    settings: Settings, master: str, candidates: list[str], place: NodeKind
) -> None:
    know(settings, master, *candidates)

    assert place_of(settings) is place


def test_a_node_without_ssconf_is_new(settings: Settings) -> None:
    assert place_of(settings) is NodeKind.MASTER
    settings.paths.server_pem.write_text("joined")
    assert place_of(settings) is NodeKind.ALL
    settings.paths.config_data.write_text("master")
    assert place_of(settings) is NodeKind.MASTER


def test_one_machine_is_the_master_whatever_its_files_say(settings: Settings) -> None:
    know(settings, "node2.test")
    alone = attrs.evolve(settings, cluster=ClusterSettings())

    assert place_of(alone) is NodeKind.MASTER
    assert [daemon.name for daemon in daemons_here(alone)] == ["wconfd", "forkserver", "luxid"]
    assert [daemon.name for daemon in daemons_here(settings)] == ["noded", "mond"]


@pytest.mark.parametrize(
    ("epoch", "place", "why"),
    [
        ("4 node1.test", NodeKind.MASTER, None),
        (
            "4 node2.test",
            NodeKind.CANDIDATES,
            "this node is not the master; node2.test has become it since, with epoch 4",
        ),
        ("4", NodeKind.CANDIDATES, "this node is not the master; another node has become it since, with epoch 4"),
    ],
)
def test_a_node_that_has_heard_of_a_newer_master_is_not_the_master(
    settings: Settings, epoch: str, place: NodeKind, why: str | None
) -> None:
    know(settings, "node1.test", "node1.test")
    settings.paths.epoch_file.write_text(f"{epoch}\n")

    assert place_of(settings) is place
    assert why_not_master(settings) == why


def test_a_daemon_says_why_it_does_not_run_on_a_node_that_believes_to_be_the_master(settings: Settings) -> None:
    know(settings, "node1.test", "node1.test")
    assert why_not_master(settings) is None
    note_not_master(settings.paths, "node2.test is (by 2 of 3 nodes)")

    assert why_not_master(settings) == "node2.test is (by 2 of 3 nodes)"
    know(settings, "node2.test")
    assert why_not_master(settings) == "this node is not the master; node2.test is"


def test_under_a_lease_the_master_is_the_node_that_keeperd_has_won_it_for(settings: Settings) -> None:
    leased = attrs.evolve(settings, cluster=ClusterSettings("etcd", "node1.test"))
    know(leased, "node2.test", "node1.test", "node2.test")
    leased.paths.epoch_file.write_text("3 node1.test\n")
    assert place_of(leased) is NodeKind.CANDIDATES
    keeper = PlayedKeeper(leased.paths, "node1.test")

    keeper.win()
    assert place_of(leased) is NodeKind.MASTER
    assert why_not_master(leased) is None
    keeper.pass_deadline()
    assert place_of(leased) is NodeKind.CANDIDATES
    why = "this node is not the master; the last one that it has heard of is node2.test; 'gantry cluster' tells who is"
    assert why_not_master(leased) == why
    keeper.win()
    keeper.take_away()
    assert place_of(leased) is NodeKind.CANDIDATES


def test_under_a_lease_ssconf_makes_no_master_and_a_new_node_waits_for_keeperd(settings: Settings) -> None:
    leased = attrs.evolve(settings, cluster=ClusterSettings("etcd", "node1.test"))

    assert place_of(leased) is NodeKind.CANDIDATES
    know(leased, "node1.test", "node1.test")
    assert place_of(leased) is NodeKind.CANDIDATES
    leased.paths.server_pem.write_text("joined")
    leased.paths.ssconf_file("master_node").unlink()
    assert place_of(leased) is NodeKind.ALL
