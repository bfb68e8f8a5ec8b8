"""Schedules and resources under a lease: each row is in etcd before it is here, and another master has all of them."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from protocol.wconfd.config import PutSchedule, ReadResources, ReadSchedules, RemoveResourceTotal, SetResourceTotal
from tests.daemon.wconfd.lease.leasedfleet import LeasedFleet
from tests.support.etcds.etcd import TestEtcd
from tests.support.keptvalues import LICENCES, MEMORY, NIGHTLY

NEW = attrs.evolve(NIGHTLY, runs=(), settled_at=1.0)


@pytest.fixture
def machines(tmp_path: Path, etcd: TestEtcd) -> Iterator[LeasedFleet]:
    with LeasedFleet(tmp_path, 1, etcd) as machines:
        yield machines


def test_another_master_has_every_row_and_none_that_was_removed(machines: LeasedFleet) -> None:
    old, new = machines.fleet.master, machines.fleet.nodes[0]
    # from before there was a lease
    old.paths.schedules_data.write_bytes(b'{"version":1,"schedules":[]}')
    machines.begin_alone()
    old.wconf(SetResourceTotal(MEMORY))
    old.wconf(SetResourceTotal(LICENCES))
    # an older copy, with a row that is gone since
    new.paths.make_folders()
    new.paths.resources_data.write_bytes(old.paths.resources_data.read_bytes())
    old.wconf(RemoveResourceTotal(MEMORY.node, MEMORY.name))
    old.wconf(PutSchedule(NEW))
    kept = machines.stored(machines.keys.kept)
    assert {"schedules.data", "schedules.data/u1", "resources.data", "resources.data/licences"} <= kept.keys()
    assert "resources.data/web1:memory" not in kept
    old.kill("wconfd")

    machines.win(new.cluster, new.name)
    new.paths.config_data.write_bytes(old.paths.config_data.read_bytes())
    new.cluster.start("noded", "wconfd")

    assert new.cluster.wconf(ReadResources()) == (LICENCES,)
    assert new.cluster.wconf(ReadSchedules()) == (NEW,)


def test_rows_from_before_the_lease_are_put_into_etcd_once(machines: LeasedFleet) -> None:
    master = machines.fleet.master
    master.paths.resources_data.write_bytes(b'{"version":1,"resources":[{"node":"","name":"licences","total":5}]}')

    machines.begin_alone()

    assert "resources.data/licences" in machines.stored(machines.keys.kept)
    master.kill("wconfd")
    master.paths.resources_data.unlink()
    master.start("wconfd")
    assert master.wconf(ReadResources()) == (LICENCES,)
