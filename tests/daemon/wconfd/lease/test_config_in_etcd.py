"""The configuration under a lease is in etcd before it is here, and only as long as a candidate may lack it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.lease.changes import MOST_KEYS, RemovedFile, encode_fate
from common.lease.grant import read_grant, write_grant
from common.locks import Owner
from common.objects.codec import decode_config
from common.objects.config import Config
from common.objects.filter import FilterRule
from common.objects.kinds import FilterUuid
from common.paths import Paths
from common.system.livelock import Livelock
from common.system.program import NOT_MASTER
from daemons.wconfd.core.config.configstate import ConfigState
from protocol.blocking import BlockingClient
from protocol.wconfd.changes import ChangeJobLimits
from protocol.wconfd.config import GetObject, ReloadConfig
from protocol.wconfd.reservations import ReserveMac
from tests.daemon.wconfd.lease.brittlewconfd import DIE, FULL
from tests.daemon.wconfd.lease.leasedfleet import LeasedFleet
from tests.support.etcds.etcd import TestEtcd
from tests.support.filterrules import filter_rule
from tests.support.wait import PATIENCE_S, wait_until

COUNT = 2


@pytest.fixture
def machines(tmp_path: Path, etcd: TestEtcd) -> Iterator[LeasedFleet]:
    with LeasedFleet(tmp_path, COUNT, etcd) as machines:
        yield machines


def config_of(paths: Paths) -> Config:
    return decode_config(orjson.loads(paths.config_data.read_bytes()))


def limit_of(paths: Paths) -> int | None:
    return config_of(paths).cluster.max_running_jobs


def until_forgotten(machines: LeasedFleet) -> None:
    wait_until(lambda: not machines.stored(), what="nothing is dirty", state=lambda: list(machines.stored()))


def call_once(paths: Paths, number: int) -> None:
    """Change the configuration, without a second try."""
    with BlockingClient(paths.wconfd_socket, connect_timeout_s=0) as client:
        client.call(ChangeJobLimits(number, None))


def test_a_change_is_kept_in_etcd_until_all_candidates_have_it(machines: LeasedFleet) -> None:
    fleet = machines.fleet
    machines.begin()
    fleet.until_same(*fleet.nodes)
    until_forgotten(machines)
    first, second = fleet.nodes
    second.kill()

    fleet.master.wconf(ChangeJobLimits(31, None))

    fleet.until_same(first)
    assert set(machines.stored()) == {"cluster/cluster", "top"}
    top = orjson.loads(machines.stored()["top"][1:])
    assert top["serial_no"] == config_of(fleet.master.paths).serial_no

    second.start()
    fleet.until_same(*fleet.nodes)
    until_forgotten(machines)
    assert int(machines.stored(machines.keys.kept)["config.base"]) == config_of(fleet.master.paths).serial_no


def test_a_candidate_that_is_stale_holds_nothing_back(machines: LeasedFleet) -> None:
    fleet = machines.fleet
    fleet.nodes[1].cluster.paths.make_folders()
    machines.put(machines.keys.stale("node3.test"), b"1")
    machines.win(fleet.master, "node1.test")
    fleet.nodes[0].start()
    fleet.master.start("noded", "wconfd")

    fleet.master.wconf(ChangeJobLimits(31, None))

    fleet.until_same(fleet.nodes[0])
    until_forgotten(machines)


def test_what_was_committed_and_not_written_is_there_after_a_restart(machines: LeasedFleet) -> None:
    fleet, master = machines.fleet, machines.fleet.master
    machines.begin()
    fleet.until_same(*fleet.nodes)
    (master.root / DIE).touch()

    with pytest.raises(Unavailable):
        call_once(master.paths, 31)
    assert limit_of(master.paths) != 31
    (master.root / DIE).unlink()
    master.daemons.pop("wconfd").wait(PATIENCE_S)
    master.start("wconfd")

    cluster: Mapping[str, Any] = master.wconf(GetObject("cluster"))
    assert cluster["max_running_jobs"] == 31 == limit_of(master.paths)
    fleet.until_same(*fleet.nodes)


def test_another_node_takes_over_with_every_change(machines: LeasedFleet) -> None:
    fleet, old = machines.fleet, machines.fleet.master
    machines.begin()
    fleet.until_same(*fleet.nodes)
    new, other = fleet.nodes
    # the copies lag, and the last change is written nowhere
    new.kill()
    old.wconf(ChangeJobLimits(31, None))
    fleet.change_node(other, offline=True, master_candidate=False)
    (old.root / DIE).touch()
    with pytest.raises(Unavailable):
        call_once(old.paths, 32)
    old.daemons.pop("wconfd").wait(PATIENCE_S)
    assert limit_of(new.paths) not in (31, 32)

    machines.win(new.cluster, new.name)
    new.cluster.start("noded", "wconfd")

    config = config_of(new.paths)
    names = {node.uuid: node.name for node in config.nodes.values()}
    assert names[config.cluster.master_node] == new.name
    assert config.cluster.max_running_jobs == 32
    assert [node.name for node in config.nodes.values() if node.offline] == [other.name]
    (old.root / DIE).unlink()
    wait_until(lambda: old.paths.config_data.read_bytes() == new.paths.config_data.read_bytes(), what="copied back")
    until_forgotten(machines)


def test_a_node_that_is_no_longer_the_master_changes_nothing(machines: LeasedFleet) -> None:
    keeper, master = machines.begin_alone(), machines.fleet.master
    before = master.paths.config_data.read_bytes()
    keeper.usurp("node2.test")

    # told so, or met by the end of the daemon: what it copies may be refused by etcd first
    words = r"^this node is no longer the master: etcd has refused|closed the connection|daemon is shutting down$"
    with pytest.raises(GantryError, match=words):
        call_once(master.paths, 31)

    assert master.daemons.pop("wconfd").wait(PATIENCE_S) == NOT_MASTER
    assert master.paths.config_data.read_bytes() == before
    assert b"31" not in machines.stored().get("cluster/cluster", b"")


def test_what_cannot_be_written_here_is_taken_back_in_etcd(machines: LeasedFleet) -> None:
    fleet, master = machines.fleet, machines.fleet.master
    machines.begin()
    fleet.until_same(*fleet.nodes)
    until_forgotten(machines)
    serial = config_of(master.paths).serial_no
    (master.root / FULL).touch()
    fleet.nodes[0].kill()

    with pytest.raises(GantryError, match="No space left"):
        call_once(master.paths, 31)

    stored = machines.stored()
    assert orjson.loads(stored["top"][1:])["serial_no"] == serial
    assert orjson.loads(stored["cluster/cluster"][1:])["max_running_jobs"] != 31
    (master.root / FULL).unlink()
    call_once(master.paths, 32)
    assert limit_of(master.paths) == 32


def test_a_file_changed_by_hand_reaches_the_cluster_in_parts(machines: LeasedFleet) -> None:
    fleet, master = machines.fleet, machines.fleet.master
    machines.begin()
    fleet.until_same(*fleet.nodes)
    until_forgotten(machines)
    new, _ = fleet.nodes
    new.kill()
    tables = orjson.loads(master.paths.config_data.read_bytes())
    (uuid,) = (uuid for uuid, node in tables["nodes"].items() if node["name"] == "node3.test")
    for number in range(300):
        tables["nodes"][f"more-{number}"] = {
            **tables["nodes"][uuid],
            **{
                "uuid": f"more-{number}",
                "name": f"more{number}.test",
                "primary_ip": f"127.1.{number // 200}.{number % 200}",
            },
            **{"master_candidate": False, "offline": True, "tags": [f"tag{count}-{'x' * 100}" for count in range(40)]},
        }
    master.paths.config_data.write_bytes(orjson.dumps(tables))

    master.wconf(ReloadConfig())

    assert len(machines.stored()) == 301
    assert machines.stored(machines.keys.parts)
    master.kill("wconfd")
    machines.win(new.cluster, new.name)
    new.cluster.start("noded", "wconfd")
    assert config_of(new.paths).nodes.keys() == config_of(master.paths).nodes.keys()
    fleet.until_same()
    until_forgotten(machines)
    wait_until(lambda: not machines.stored(machines.keys.parts), what="no part is left")


def test_reservations_survive_with_their_owners(machines: LeasedFleet) -> None:
    master = machines.fleet.master
    machines.begin_alone()
    livelock = Livelock.create(master.paths.livelocks, "job_000007")
    owner = Owner(7, livelock.path)
    master.wconf(ReserveMac(owner, "aa:00:00:12:34:56"))
    before = master.paths.tempres_data.read_bytes()
    master.kill("wconfd")
    master.paths.tempres_data.unlink()

    master.start("wconfd")

    assert master.paths.tempres_data.read_bytes() == before
    assert b"aa:00:00:12:34:56" in before
    livelock.remove()


def test_a_copy_that_lacks_forgotten_changes_is_refused(machines: LeasedFleet) -> None:
    master = machines.fleet.master
    machines.begin_alone()
    master.kill("wconfd")
    machines.put(f"{machines.keys.kept}config.base", b"99")

    with pytest.raises(AssertionError, match="lacks changes up to 99"):
        master.start("wconfd")

    # as keeperd does for `gantry cluster takeover`
    grant = read_grant(master.paths.grant_file)
    assert grant is not None
    write_grant(master.paths.grant_file, attrs.evolve(grant, takes_loss=True))
    master.start("wconfd")

    assert config_of(master.paths).serial_no >= 99
    assert "config.changes_lost" in master.log("wconfd")


def test_a_file_that_is_newer_than_etcd_counts_and_is_put_there(machines: LeasedFleet) -> None:
    master = machines.fleet.master
    machines.begin_alone()
    # candidates are away, so changes are kept
    call_once(master.paths, 31)
    old = machines.stored()
    call_once(master.paths, 32)
    master.kill("wconfd")
    for name, value in old.items():
        # as etcd is after it was restored from a snapshot
        machines.put(f"{machines.keys.config}{name}", value)

    master.start("wconfd")

    assert limit_of(master.paths) == 32
    assert b'"max_running_jobs":32' in machines.stored()["cluster/cluster"]
    assert orjson.loads(machines.stored()["top"][1:])["serial_no"] == config_of(master.paths).serial_no


def _rule(uuid: str) -> FilterRule:
    return filter_rule(watermark=JobId(0), priority=0, predicates=(), action="CONTINUE", reason_trail=(), uuid=uuid)


def test_a_file_that_is_newer_by_more_objects_than_one_change_takes_is_put_there(machines: LeasedFleet) -> None:
    master = machines.fleet.master
    machines.begin_alone()
    call_once(master.paths, 31)
    master.kill("wconfd")
    config = config_of(master.paths)
    rules = {FilterUuid(f"{number:08x}-0000-4000-8000-000000000000") for number in range(MOST_KEYS + 1)}
    # as etcd is after it was restored from a snapshot
    machines.put_all({f"{machines.keys.config}filters/{uuid}": encode_fate(RemovedFile()) for uuid in rules})
    newer = attrs.evolve(config, filters={uuid: _rule(uuid) for uuid in rules}, serial_no=config.serial_no + 1)
    master.paths.config_data.write_bytes(ConfigState.of(newer).content)

    master.start("wconfd")

    stored = machines.stored()
    assert all(stored[f"filters/{uuid}"].startswith(b"={") for uuid in rules)
    assert orjson.loads(stored["top"][1:])["serial_no"] == config_of(master.paths).serial_no
