"""Daemons killed at any moment: at the end the candidates have what the master has (DESIGN 12; noded.md 8)."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.wconfd.changes import ChangeJobLimits
from tests.support.machines.fleet import Fleet

CHANGES = 60


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 2) as fleet:
        yield fleet


def test_candidates_equal_the_master_after_kills_of_wconfd_and_node_daemons(fleet: Fleet) -> None:
    chance = random.Random(11)
    fleet.start()

    for number in range(CHANGES):
        assert fleet.master.wconf(ChangeJobLimits(100 + number, None))
        if number % 6 == 0:
            disturb(fleet, chance)
        if number % 15 == 0:
            fleet.change_node(fleet.nodes[0], master_candidate=bool(number % 2))
    fleet.change_node(fleet.nodes[0], master_candidate=True)
    for node in fleet.nodes:
        if "noded" not in node.cluster.daemons:
            node.start()

    fleet.until_same(*fleet.nodes)


def disturb(fleet: Fleet, chance: random.Random) -> None:
    """Kill wconfd and start it again, or kill a node daemon, or start it."""
    place = chance.choice([None, *fleet.nodes])
    if place is None:
        # more than half of the nodes must say that the master is the master
        if not any("noded" in node.cluster.daemons for node in fleet.nodes):
            fleet.nodes[0].start()
        fleet.master.restart("wconfd")
    elif "noded" in place.cluster.daemons:
        place.kill()
    else:
        place.start()
