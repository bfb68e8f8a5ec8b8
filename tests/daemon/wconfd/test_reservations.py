"""Reservations in their wire form, over a real file and through deaths and restarts (wconfd.md 2.4, 6.2)."""

import gc
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from common.clusterinit import create_cluster
from common.locks import Owner
from common.paths import Paths
from daemons.wconfd.filestores import ReservationStore
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.daemons.wconfd import Calls
from tests.support.wait import wait_until

A, B = [1, "/run/livelocks/job_1"], [2, "/run/livelocks/job_2", 4711]
EMPTY: dict[str, list[Any]] = {"dRBD": [], "mACs": [], "dRBDSecrets": [], "lVs": [], "iPv4s": []}


@pytest.fixture
async def calls(tmp_path: Path, nursery: trio.Nursery) -> Calls:
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")
    config = orjson.loads(paths.config_data.read_bytes())
    config["networks"] = {"net": {"name": "net", "network": "192.0.2.0/30", "uuid": "net", "serial_no": 1}}
    paths.config_data.write_bytes(orjson.dumps(config))
    return await Calls.start(paths, nursery)


def on_disk(path: Path) -> Any:
    return orjson.loads(path.read_bytes())


@pytest.mark.trio
async def test_whatever_is_reserved_is_on_disk_when_it_is_answered(calls: Calls, tmp_path: Path) -> None:
    path = Paths.under_root(tmp_path).tempres_data
    mac = await calls("generateMAC", A, None)
    assert on_disk(path)["mACs"] == [[A, [mac]]]
    secret = await calls("generateDRBDSecret", B)
    assert on_disk(path)["dRBDSecrets"] == [[B, [secret]]]
    assert await calls("reserveLV", A, "xenvg/lv1") == []
    assert on_disk(path)["lVs"] == [[A, ["xenvg/lv1"]]]
    assert await calls("generateIp", B, "net") == "192.0.2.0"
    assert await calls("releaseIp", B, "net", "192.0.2.3") == []
    assert await calls("listReservedIps", B) == [["reserve", "192.0.2.0", "net"], ["release", "192.0.2.3", "net"]]
    assert on_disk(path)["iPv4s"] == [[B, [["reserve", "192.0.2.0", "net"], ["release", "192.0.2.3", "net"]]]]
    assert await calls("allocateDRBDMinor", "disk", ["n1"]) == [0]
    assert on_disk(path)["dRBD"] == [["n1", [[0, "disk"]]]]

    for owner in (A, B, B):
        assert await calls("dropAllReservations", owner) == []
    assert await calls("releaseDRBDMinors", "disk") == []

    assert on_disk(path) == EMPTY


@pytest.mark.trio
async def test_commits_count_once(calls: Calls) -> None:
    before = await calls("readConfig")
    await calls("reserveIp", A, "net", "192.0.2.2", True)

    assert await calls("commitTemporaryIps", A) == []

    assert await calls("listReservedIps", A) == [["reserve", "192.0.2.2", "net"]]
    assert (await calls.refused("commitTemporaryIps", A))[0] == "ReservationError"
    after = await calls("readConfig")
    assert (after["networks"]["net"]["reservations"], after["networks"]["net"]["serial_no"]) == ("0010", 1)
    assert after["serial_no"] == before["serial_no"] + 1
    assert await calls("commitReleaseTemporaryIp", "net", "192.0.2.2") == []
    assert (await calls.refused("commitReleaseTemporaryIp", "net", "192.0.2.2"))[0] == "ReservationError"


@pytest.mark.trio
@pytest.mark.parametrize(
    ("method", "args", "name"),
    [
        ("reserveIp", (A, "net", "192.0.2.300", False), "GenericError"),
        ("reserveIp", (A, "net", "192.0.2.4", False), "ReservationError"),
        ("reserveIp", (A, "none", "192.0.2.1", False), "ReservationError"),
        ("releaseIp", (A, "net", "192.0.2"), "GenericError"),
        ("generateIp", (A, "none"), "ReservationError"),
        ("generateMAC", (A, "none"), "ReservationError"),
        ("reserveLV", (A, "xenvg"), "GenericError"),
        ("allocateDRBDMinor", ("d", ["n1", "n1"]), "ReservationError"),
        ("commitReleaseTemporaryIp", ("none", "192.0.2.1"), "ReservationError"),
    ],
)
async def test_a_refused_reservation_leaves_nothing(
    calls: Calls, method: str, args: tuple[Any, ...], name: str
) -> None:
    assert (await calls.refused(method, *args))[0] == name
    assert not calls.reservations.state.owners()
    assert not calls.reservations.state.minors


@pytest.mark.trio
async def test_many_at_once_share_writes_and_get_different_addresses(calls: Calls, nursery: trio.Nursery) -> None:
    addresses: list[str] = []

    async def generate(number: int) -> None:
        addresses.append(await calls("generateIp", [number, f"/job_{number}"], "net"))

    async with trio.open_nursery() as inner:
        for number in range(4):
            inner.start_soon(generate, number)

    assert sorted(addresses) == [f"192.0.2.{number}" for number in range(4)]
    assert calls.reservations.counts.writes < 4


@pytest.mark.trio
async def test_what_cannot_be_written_is_not_reserved(calls: Calls, tmp_path: Path) -> None:
    await calls("reserveMAC", A, "a")
    path = Paths.under_root(tmp_path).tempres_data
    path.unlink()
    path.mkdir()

    name, text = await calls.refused("reserveMAC", B, "b")

    assert (name, "could not be written" in text) == ("GenericError", True)
    assert calls.reservations.owners() == {Owner(1, "/run/livelocks/job_1")}
    path.rmdir()
    assert await calls("reserveMAC", B, "b") == []
    assert [row[1] for row in on_disk(path)["mACs"]] == [["a"], ["b"]]


# with a daemon of its own


def test_reservations_survive_a_kill(cluster: Cluster, call: Wire, job: Callable[[int], WireOwner]) -> None:
    call("reserveMAC", job(1), "aa:00:00:00:00:01")

    cluster.restart("wconfd", signal.SIGKILL)

    assert on_disk(cluster.paths.tempres_data)["mACs"] == [[job(1), ["aa:00:00:00:00:01"]]]
    again = Wire(cluster.paths.wconfd_socket)
    with pytest.raises(Exception, match="is reserved by job/1"):
        again("reserveMAC", job(2), "aa:00:00:00:00:01")
    again.close()


def test_the_death_of_an_owner_with_nothing_but_reservations_drops_them(
    cluster: Cluster, call: Wire, spawn: Callable[[int], Holder], job: Callable[[int], WireOwner]
) -> None:
    process = spawn(7)
    call("reserveMAC", process.owner, "aa:00:00:00:00:01")
    call("reserveMAC", job(8), "aa:00:00:00:00:02")
    call("allocateDRBDMinor", "disk", ["n1"])

    process.kill()

    def left() -> Any:
        return on_disk(cluster.paths.tempres_data)

    wait_until(
        lambda: left()["mACs"] == [[job(8), ["aa:00:00:00:00:02"]]], what="the dead one's is dropped", state=left
    )
    assert left()["dRBD"] == [["n1", [[0, "disk"]]]]


def test_the_reservations_of_owners_that_died_meanwhile_are_dropped_at_the_start(
    idle: Cluster, spawn: Callable[[int], Holder]
) -> None:
    process = spawn(7)
    content = {**EMPTY, "lVs": [[process.owner, ["vg/lv"]]]}
    idle.paths.tempres_data.write_bytes(orjson.dumps(content))
    process.kill()

    idle.start("wconfd")

    assert on_disk(idle.paths.tempres_data) == EMPTY


def test_minors_that_the_configuration_got_before_a_crash_are_released_at_the_start(idle: Cluster) -> None:
    config = on_disk(idle.paths.config_data)
    config["disks"] = {
        "d": {
            "dev_type": "drbd",
            "logical_id": ["n1", "n2", 11000, 0, 3, "s"],
            "size": 1,
            "uuid": "d",
            "serial_no": 1,
        }
    }
    idle.paths.config_data.write_bytes(orjson.dumps(config))
    minors = [["n1", [[0, "d"], [1, "e"]]], ["n2", [[2, "d"]]]]
    idle.paths.tempres_data.write_bytes(orjson.dumps({**EMPTY, "dRBD": minors}))

    idle.start("wconfd")

    assert on_disk(idle.paths.tempres_data)["dRBD"] == [["n1", [[1, "e"]]], ["n2", [[2, "d"]]]]


@pytest.mark.trio
async def test_an_owner_that_has_nothing_any_more_is_not_kept(tmp_path: Path, nursery: trio.Nursery) -> None:
    store = ReservationStore.load(tmp_path / "tempres.data")
    await nursery.start(store.run)
    owner = Owner(1, "/run/livelocks/job_1")
    kept = weakref.ref(owner)

    await store.change_of(owner, lambda state: (state, None))
    del owner
    gc.collect()

    assert kept() is None
