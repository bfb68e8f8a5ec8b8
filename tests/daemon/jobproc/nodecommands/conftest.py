"""A master and a node, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.machines.fleet import Fleet, FleetNode

SETTINGS = "[luxid]\nkill_grace_s = 1.0\n[jobproc]\nlost_node_s = 3.5\n"


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), 1) as fleet:
        own = fleet.master.root / "gantry.toml"
        own.write_text(own.read_text() + SETTINGS)
        fleet.nodes[0].start()
        fleet.master.start("noded", "wconfd", "forkserver", "luxid")
        yield fleet


@pytest.fixture
def node(fleet: Fleet) -> FleetNode:
    return fleet.nodes[0]
