"""MACs, secrets, volumes and minors: taken once, in the configuration or by a reservation (wconfd.md 2.4)."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from common.errors import InvalidRequest, ReservationError
from common.locks import Owner
from common.objects.codec import decode_object
from common.objects.config import Config, Network
from common.objects.kinds import DiskUuid, InstanceUuid, NetworkUuid, NodeUuid
from daemons.wconfd.core.reservations import (
    Reservations,
    allocate_minors,
    drbd_map,
    generate_mac,
    generate_secret,
    read_volume,
    reserve_mac,
    reserve_volume,
    without_written,
)
from tests.support.configs import disk, disk_json, instance, small_config

A, B = Owner(1, "/a"), Owner("cli", "/b")
NOTHING = Reservations()


def drbd(uuid: str, *minors: int, secret: str = "s", **changes: Any) -> Any:
    place = ["uuid-node", "n2", 11000, *minors, secret]
    return disk(uuid, dev_type="drbd", logical_id=place, **changes)


@pytest.fixture
def config() -> Config:
    """An instance with a MAC, a mirrored disk with two volumes below it, and a disk of nobody."""
    nic = {"mac": "AA:00:00:00:00:01", "nicparams": {}, "uuid": "nic"}
    return attrs.evolve(
        small_config(),
        instances={InstanceUuid("i"): instance("i", nics=[nic], disks=["mirror"])},
        disks={
            DiskUuid("mirror"): drbd("mirror", 0, 2, secret="00" * 20, children=[disk_json("data"), disk_json("meta")]),
            DiskUuid("loose"): disk("loose"),
        },
        networks={
            NetworkUuid("net"): decode_object(
                {"name": "n", "network": "10.0.0.0/30", "mac_prefix": "AA:01:02", "uuid": "net", "serial_no": 1},
                Network,
                "network",
            )
        },
    )


def giving(*values: str) -> Callable[[int], bytes]:
    """A random generator that gives these values, one after the other."""
    left = [bytes.fromhex(value) for value in values]

    def random_bytes(count: int) -> bytes:
        assert len(left[0]) == count
        return left.pop(0)

    return random_bytes


def test_a_generated_mac_avoids_instances_and_reservations(config: Config) -> None:
    state = reserve_mac(NOTHING, config, B, "AA:00:00:00:00:02")

    state, mac = generate_mac(state, config, A, None, giving("000001", "000002", "0000fF"))

    assert mac == "aa:00:00:00:00:ff"
    assert state.macs.of(A) == {mac}


def test_a_network_has_its_own_prefix(config: Config) -> None:
    assert generate_mac(NOTHING, config, A, "net", giving("030405"))[1] == "aa:01:02:03:04:05"
    with pytest.raises(ReservationError, match="no network 'none'"):
        generate_mac(NOTHING, config, A, "none", giving("030405"))


def test_after_64_tries_no_more_macs_are_tried(config: Config) -> None:
    tries: list[int] = []

    def random_bytes(count: int) -> bytes:
        tries.append(count)
        return b"\0\0\1"

    with pytest.raises(ReservationError, match="no free MAC with the prefix aa:00:00 was found in 64 tries"):
        generate_mac(NOTHING, config, A, None, random_bytes)
    assert len(tries) == 64


def test_a_mac_is_reserved_once_by_anybody(config: Config) -> None:
    state = reserve_mac(NOTHING, config, A, "aa:00:00:00:00:02")

    for owner in (A, B):
        with pytest.raises(ReservationError, match="is reserved by job/1"):
            reserve_mac(state, config, owner, "AA:00:00:00:00:02")
    with pytest.raises(ReservationError, match="in use by an instance"):
        reserve_mac(state, config, A, "aa:00:00:00:00:01")


def test_a_secret_is_unique_too(config: Config) -> None:
    _, secret = generate_secret(NOTHING, config, A, giving("00" * 20, "ab" * 20))

    assert secret == "ab" * 20


@pytest.mark.parametrize("volume", ["xenvg/data", "xenvg/meta"])
def test_a_volume_below_an_attached_disk_is_taken(config: Config, volume: str) -> None:
    with pytest.raises(ReservationError, match=f"volume '{volume}' is in use"):
        reserve_volume(NOTHING, config, A, volume)


def test_the_volume_of_a_disk_of_nobody_is_free_but_once(config: Config) -> None:
    state = reserve_volume(NOTHING, config, A, "xenvg/loose")

    with pytest.raises(ReservationError, match="'xenvg/loose' is reserved by job/1"):
        reserve_volume(state, config, B, "xenvg/loose")


@pytest.mark.parametrize("name", ["vg/lv", "v.g-1/_l+v", "vg/snapshot1", "a/.b", "snapshot/x", "x_mlog/y"])
def test_such_names_of_volumes_are_possible(name: str) -> None:
    assert read_volume(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("vg", "vg/", "/lv", "", "vg/a/b", "-vg/lv", "vg/-lv", "./lv", "../lv", "vg/.", "vg/..", "vg/snapshot"),
        *("vg/pvmove", "vg/a_mlog", "vg/a_mimage_0", "v g/lv", "vg/lv\n", "vg/lö"),
    ],
)
def test_such_names_of_volumes_are_not(name: str) -> None:
    with pytest.raises(InvalidRequest, match="expected a volume"):
        read_volume(name)


# minors


def test_the_lowest_free_minor_of_each_node_in_the_order_of_the_nodes(config: Config) -> None:
    state, minors = allocate_minors(config, NOTHING, "new", ["n2", "uuid-node", "n3"])
    again = allocate_minors(config, state, "new", ["n2", "uuid-node"])[1]

    assert minors == (0, 1, 0)
    assert again == (1, 2)


def test_a_node_listed_twice_is_refused(config: Config) -> None:
    with pytest.raises(ReservationError, match="a node is listed twice in 'n2', 'n2'"):
        allocate_minors(config, NOTHING, "new", ["n2", "n2"])


def test_the_map_has_every_node_and_both_kinds_of_minors(config: Config) -> None:
    state, _ = allocate_minors(config, NOTHING, "new", ["uuid-node", "n9"])

    assert drbd_map(config, state) == {"n2": {2: "mirror"}, "n9": {0: "new"}, "uuid-node": {0: "mirror", 1: "new"}}
    assert drbd_map(small_config(), NOTHING) == {"uuid-node": {}}


def test_a_minor_of_two_disks_is_reported(config: Config) -> None:
    both = attrs.evolve(config, disks={**config.disks, DiskUuid("other"): drbd("other", 0, 7)})

    with pytest.raises(ReservationError, match="minor 0 on node 'uuid-node' is used by disks 'mirror' and 'other'"):
        drbd_map(both, NOTHING)


def test_a_minor_that_the_configuration_has_by_now_is_no_clash_and_no_longer_temporary(config: Config) -> None:
    state, _ = allocate_minors(small_config(), NOTHING, "mirror", ["uuid-node"])
    state, _ = allocate_minors(small_config(), state, "other", ["uuid-node"])
    # the disk is about to move there
    state, _ = allocate_minors(config, state, "mirror", ["n3"])

    assert drbd_map(config, state)[NodeUuid("uuid-node")] == {0: "mirror", 1: "other"}
    assert drbd_map(small_config(), without_written(config, state)) == {"uuid-node": {1: "other"}, "n3": {0: "mirror"}}


def test_released_minors_are_free_and_others_stay() -> None:
    config = small_config()
    state, _ = allocate_minors(config, NOTHING, "a", ["n1", "n2"])
    state, _ = allocate_minors(config, state, "b", ["n2"])

    after = state.without_minors("a", "none")

    assert drbd_map(config, after) == {"n2": {1: "b"}, "uuid-node": {}}
    assert after.without_minors("a") is after


def test_dropping_an_owner_leaves_others_and_minors(config: Config) -> None:
    state = reserve_mac(reserve_mac(NOTHING, config, A, "a"), config, B, "b")
    state, _ = allocate_minors(config, state, "disk", ["n1"])

    after = state.without_owner(A)

    assert after.owners() == {B}
    assert not after.has(A)
    assert after.minors == state.minors
    assert after.without_owner(A) is after
    assert reserve_mac(after, config, B, "a").macs.of(B) == {"a", "b"}
