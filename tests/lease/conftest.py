"""One etcd of three members and three candidates for all tests: each leaves them sound."""

from collections.abc import Iterator

import pytest

from tests.lease.work import Work
from tests.support.etcds.etcd import Etcd, EtcdBinary
from tests.support.machines.leasefleet import LeaseFleet


@pytest.fixture(scope="session")
def all_work(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Work]:
    folder = tmp_path_factory.mktemp("lease")
    with Etcd(folder / "etcd", 3, binary=etcd_binary) as etcd, LeaseFleet(folder, etcd, has_ways=True) as fleet:
        fleet.up()
        yield Work(fleet, folder)


@pytest.fixture
def work(all_work: Work) -> Iterator[Work]:
    """A fleet in which every node could follow the master; at the end all that was acknowledged must be there."""
    all_work.fleet.until_fit()
    all_work.fleet.until_same()
    yield all_work
    all_work.fleet.heal()
    all_work.fleet.until_master()
    all_work.until_ended()
    assert all_work.complaints() == []
