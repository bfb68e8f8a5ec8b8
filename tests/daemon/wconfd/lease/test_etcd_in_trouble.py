"""While etcd is full or silent the configuration does not change, and locks are served as ever (DESIGN section 14)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.blocking import BlockingClient
from protocol.wconfd.changes import ChangeJobLimits
from protocol.wconfd.locks import TryUpdateLocks
from tests.daemon.wconfd.lease.leasedfleet import LeasedFleet
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd
from tests.support.etcds.fulletcd import SMALL, fill, make_room


@pytest.fixture
def etcd(tmp_path: Path, etcd_binary: EtcdBinary) -> Iterator[TestEtcd]:
    (tmp_path / "etcd").mkdir()
    with Etcd(tmp_path / "etcd", options=(SMALL,), binary=etcd_binary) as etcd:
        yield TestEtcd(etcd, etcd.new_prefix())


@pytest.fixture
def machines(tmp_path: Path, etcd: TestEtcd) -> Iterator[LeasedFleet]:
    with LeasedFleet(tmp_path, 0, etcd) as machines:
        yield machines


def lock(master: Cluster, livelock: Livelock, mode: LockMode | None) -> None:
    request = LockRequest(parse_lock("node/n1"), mode)
    master.wconf(TryUpdateLocks(Owner(7, livelock.path), (request,)))


def test_a_full_etcd_refuses_changes_in_words_and_nothing_else(machines: LeasedFleet, etcd: TestEtcd) -> None:
    master = machines.fleet.master
    machines.begin_alone()
    before = master.paths.config_data.read_bytes()
    livelock = Livelock.create(master.paths.livelocks, "job_000007")
    trio.run(partial(fill, etcd))

    with BlockingClient(master.paths.wconfd_socket) as client, pytest.raises(Exception, match="etcd is full"):
        client.call(ChangeJobLimits(31, None))

    assert master.paths.config_data.read_bytes() == before
    lock(master, livelock, LockMode.EXCLUSIVE)
    lock(master, livelock, None)
    livelock.remove()

    trio.run(partial(make_room, etcd))
    with BlockingClient(master.paths.wconfd_socket) as client:
        client.call(ChangeJobLimits(31, None))
    assert b'"max_running_jobs":31' in master.paths.config_data.read_bytes()


def test_a_change_waits_for_a_silent_etcd_and_locks_do_not(machines: LeasedFleet, etcd: TestEtcd) -> None:
    master, (member,) = machines.fleet.master, etcd.etcd.members
    machines.begin_alone()
    before = master.paths.config_data.read_bytes()
    livelock = Livelock.create(master.paths.livelocks, "job_000007")
    member.pause()
    try:
        with BlockingClient(master.paths.wconfd_socket) as client:
            waiting = ChangeJobLimits(31, None)
            client.start(waiting)
            lock(master, livelock, LockMode.EXCLUSIVE)
            lock(master, livelock, None)
            assert master.paths.config_data.read_bytes() == before
            member.resume()
            client.finish(waiting)
    finally:
        member.resume()
    livelock.remove()
    assert b'"max_running_jobs":31' in master.paths.config_data.read_bytes()
