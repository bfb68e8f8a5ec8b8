"""One node wins the mastership, and another one takes over when it dies (DESIGN 14)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcd import Etcd
from tests.support.machines.leasefleet import LeaseFleet
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(module_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseFleet]:
    root: Path = tmp_path_factory.mktemp("fleet")
    with LeaseFleet(root, module_etcd, 2) as fleet:
        fleet.up()
        yield fleet


def test_one_node_serves_and_the_other_takes_over_when_it_dies(fleet: LeaseFleet) -> None:
    first = fleet.until_master()
    before = first.grant()
    assert before is not None
    (second,) = [each for each in fleet if each is not first]
    assert second.grant() is None
    assert not second.pids("luxid", "wconfd", "forkserver")

    first.crash()

    wait_until(second.grant, what="the other node is granted the mastership", state=fleet.states)
    after = second.grant()
    assert after is not None
    assert after.fence.epoch > before.fence.epoch
