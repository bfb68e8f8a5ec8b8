"""A cluster with a queue comes to etcd, and leaves it: real nodes, no job is lost (DESIGN 14)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Get
from protocol.luxi.queries import QueryJobs
from tests.bench.queued import put_jobs
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until

QUEUED = 30


@pytest.fixture
def fleet(tmp_path: Path, module_etcd: Etcd) -> Iterator[LeaseFleet]:
    with LeaseFleet(tmp_path, module_etcd, 2) as fleet:
        yield fleet


def held(fleet: LeaseFleet) -> frozenset[str]:
    """The names of the cluster's keys in etcd."""

    async def read() -> frozenset[str]:
        async with EtcdClient(fleet.etcd.address()) as client:
            found = await client.get(Get(fleet.prefix, is_prefix=True, keys_only=True))
            return frozenset(each.key.removeprefix(fleet.prefix) for each in found.values)

    return trio.run(read)


def down(candidate: Candidate) -> None:
    done = candidate.gantry("down")
    assert done.code == 0, done


def test_a_queue_comes_to_etcd_and_leaves_it(fleet: LeaseFleet) -> None:
    first, other = fleet
    put_jobs(first.paths, QUEUED)

    done = first.gantry("cluster", "convert", "--yes")

    assert done.code == 0, done
    assert f"stale/{other.name}" in held(fleet)
    # the other one is there first, and has only an old copy
    other.up()
    first.up()
    assert fleet.until_master() is first
    jobs = first.cluster.luxi(QueryJobs((), ("id",)))
    assert {str(row[0]) for row in jobs} == {str(number) for number in range(1, QUEUED + 1)}
    wait_until(lambda: f"stale/{other.name}" not in held(fleet), what="the other node to be compared")
    fleet.until_same()

    # back: the one that was the master last has all
    down(other)
    down(first)
    for each in fleet:
        settings = each.cluster.root / "gantry.toml"
        settings.write_text(settings.read_text().replace('replication = "etcd"', 'replication = "nodes"'))
    wait_until(lambda: not any(name.startswith("member/") or name == "master" for name in held(fleet)), what="leases")
    before = {path.name: path.read_bytes() for path in first.paths.queue.rglob("*") if path.is_file()}

    done = first.gantry("cluster", "convert", "--to", "nodes", "--yes")

    assert done.code == 0, done
    assert held(fleet) == frozenset()
    assert before == {path.name: path.read_bytes() for path in first.paths.queue.rglob("*") if path.is_file()}
