"""What units read and change of the configuration, through a wconfd that runs. DESIGN section 7; wconfd.md 2.3."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.errors import JobCanceled, RemoteError
from common.locks import Owner
from common.objects.kinds import AdminState, InstanceUuid
from common.system.livelock import Livelock
from daemons.jobproc.configuration import UnitConfig, Wconfd
from protocol.blocking import BlockingClient
from protocol.wconfd.config import LockConfig, UnlockConfig
from tests.support.cluster import Cluster
from tests.support.configs import disk, instance


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        cluster.start("wconfd")
        yield cluster


@attrs.define
class Unit:
    """Reads and changes as a unit of job 7 does."""

    cluster: Cluster
    livelock: Livelock
    changes: int = 0
    # what the unit does while it waits; true: it is asked to cancel
    pauses: list[bool] = attrs.field(factory=list)

    @property
    def owner(self) -> Owner:
        return Owner(7, self.livelock.path)

    @property
    def config(self) -> UnitConfig:
        return UnitConfig.read(Wconfd(self.connect, self.owner, self.pause, self.count))

    def connect(self) -> BlockingClient:
        return BlockingClient(self.cluster.paths.wconfd_socket)

    def count(self) -> None:
        self.changes += 1

    def pause(self, seconds: float) -> bool:
        """The configuration is given back meanwhile, or the job is canceled."""
        is_canceled = self.pauses.pop(0)
        if not is_canceled:
            self.cluster.wconf(UnlockConfig(self.other))
        return is_canceled

    @property
    def other(self) -> Owner:
        return Owner("other", self.livelock.path)


@pytest.fixture
def unit(cluster: Cluster) -> Iterator[Unit]:
    livelock = Livelock.create(cluster.paths.livelocks, "job_000007")
    yield Unit(cluster, livelock)
    livelock.remove()


def test_a_unit_reads_objects_by_their_names_and_places(unit: Unit) -> None:
    config = unit.config

    (node,) = config.nodes
    assert (node.name, config.master_name) == ("node1.test", "node1.test")
    assert config.cluster.cluster_name == "cluster.test"
    assert config.group_nodes(node.group) == [node]
    assert unit.changes == 0


def test_an_instance_with_a_disk_is_added_changed_and_removed(unit: Unit) -> None:
    before = unit.config
    (node,) = before.nodes

    before.add_instance(instance("i1", primary_node=node.uuid))
    before.add_disk("i1", disk("d1"))
    after = before.set_instance_status("i1", AdminState.DOWN)

    now = unit.config
    assert now.config.instances[InstanceUuid("i1")] == after
    assert (after.name, after.admin_state) == ("i1.test", AdminState.DOWN)
    assert [each.uuid for each in now.disks(after)] == ["d1"]
    assert (now.primaries(node.uuid), before.primaries(node.uuid)) == (["i1.test"], ())
    assert unit.changes == 3

    now.detach_disk("i1", "d1")
    now.attach_disk("i1", "d1", 0)
    now.remove_disk("i1", "d1")
    now.remove_instance("i1")
    assert (unit.config.instances, unit.config.config.disks) == ([], {})


def test_an_object_is_updated_again_and_again_but_never_over_the_change_of_another(unit: Unit) -> None:
    config = unit.config
    (stale,) = config.nodes

    once = config.update(attrs.evolve(stale, drained=True))
    twice = config.update(attrs.evolve(once, drained=False, offline=True))

    assert unit.config.nodes == [twice]
    assert twice.serial_no == stale.serial_no + 2
    with pytest.raises(RemoteError, match="serial"):
        config.update(attrs.evolve(stale, vm_capable=False))
    cluster = config.update(attrs.evolve(unit.config.cluster, mac_prefix="aa:00:01"))
    assert unit.config.cluster == cluster
    assert unit.changes == 3


def test_a_port_is_taken_by_one_and_can_be_given_back(unit: Unit) -> None:
    config = unit.config

    first, second = config.allocate_port(), config.allocate_port()
    config.return_port(first)

    assert first != second
    assert config.allocate_port() == first


def test_a_change_waits_until_the_whole_configuration_is_given_back(unit: Unit) -> None:
    config = unit.config
    assert unit.cluster.wconf(LockConfig(unit.other, shared=False)) is not None
    unit.pauses = [False]

    config.allocate_port()

    assert (unit.pauses, unit.changes) == ([], 1)


def test_a_cancel_ends_the_wait_and_nothing_is_changed(unit: Unit) -> None:
    config = unit.config
    assert unit.cluster.wconf(LockConfig(unit.other, shared=False)) is not None
    unit.pauses = [True]

    with pytest.raises(JobCanceled):
        config.allocate_port()

    assert unit.changes == 0
    assert unit.config.config == config.config
