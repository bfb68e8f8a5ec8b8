"""A master and a node, for all tests of this folder."""

import signal
from collections.abc import Iterator

import pytest

from tests.support.machines.fleet import Fleet, FleetNode

SETTINGS = "[luxid]\nkill_grace_s = 1.0\n"
# longer than it takes until a node's silence is told
IMPATIENT = "[jobproc]\nlost_node_s = 3.5\n"


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


@pytest.fixture
def impatient(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, whose jobs give up a silent node soon: others wait for a node however slowly it starts."""
    own = fleet.master.root / "gantry.toml"
    before = own.read_text()
    own.write_text(before + IMPATIENT)
    fleet.master.restart("forkserver", signal.SIGTERM)
    yield fleet
    own.write_text(before)
    fleet.master.restart("forkserver", signal.SIGTERM)
