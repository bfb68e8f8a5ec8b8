"""Instances and their disks: what a change leaves behind, and what it refuses (wconfd.md 2.3)."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from common.errors import ConfigurationError, InvalidRequest, ProgrammerError, ReservationError
from common.objects.codec import decode_object
from common.objects.config import Config, Network
from common.objects.kinds import AdminState, AdminStateSource, DiskUuid, InstanceUuid, NetworkUuid
from daemons.wconfd.core.config import instances
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.core.reservations import IpAction, IpNote
from tests.support.configs import disk, instance, small_config

NOW = 2000.0


def nic(mac: str, **changes: Any) -> dict[str, Any]:
    return {"mac": mac, "nicparams": {}, "uuid": f"nic-{mac}", **changes}


def network(**changes: Any) -> Network:
    value = {"name": "net", "network": "192.0.2.0/29", "uuid": "net", "serial_no": 1, **changes}
    return decode_object(value, Network, "network")


@pytest.fixture
def config() -> Config:
    """Two instances, `a` with the disks d0, d1, d2 and `b` with none, and a disk `loose` of nobody."""
    return attrs.evolve(
        small_config(),
        instances={
            InstanceUuid("a"): instance(
                "a", disks=["d0", "d1", "d2"], nics=[nic("aa:00:00:00:00:01")], network_port=11000
            ),
            InstanceUuid("b"): instance("b"),
        },
        disks={
            DiskUuid(uuid): disk(uuid, iv_name=f"disk/{place}")
            for place, uuid in enumerate(["d0", "d1", "d2", "loose"])
        },
        networks={NetworkUuid("net"): network(reservations="00000110")},
    )


def names_of(config: Config, uuid: str) -> list[tuple[str, str]]:
    return [(disk, config.disks[disk].iv_name) for disk in config.instances[InstanceUuid(uuid)].disks]


def check_counts(before: Config, after: Config, *, config: int = 1, cluster: int = 0, **instances_: int) -> None:
    """Serial numbers grew by this much, and all that grew have the time of the change."""
    pairs: list[tuple[Any, Any, int]] = [(before, after, config), (before.cluster, after.cluster, cluster)]
    pairs += [
        (before.instances[InstanceUuid(uuid)], after.instances[InstanceUuid(uuid)], count)
        for uuid, count in instances_.items()
    ]
    for one, other, count in pairs:
        assert (other.serial_no, other.mtime) == (one.serial_no + count, NOW if count else one.mtime)


# adding


def test_an_added_instance_keeps_its_serial_and_gets_its_times(config: Config) -> None:
    after = instances.add_instance(config, instance("new", serial_no=7, ctime=1), (), NOW, replace=False)

    new = after.instances[InstanceUuid("new")]
    assert (new.serial_no, new.ctime, new.mtime) == (7, NOW, NOW)
    check_counts(config, after, a=0, b=0)


def test_a_replaced_instance_may_keep_its_macs(config: Config) -> None:
    given = instance("a", nics=[nic("aa:00:00:00:00:01")], name="other")

    after = instances.add_instance(config, given, (), NOW, replace=True)

    assert after.instances[InstanceUuid("a")].name == "other"
    assert list(after.instances) == ["a", "b"]


@pytest.mark.parametrize("replace", [False, True])
def test_the_mac_of_another_instance_is_refused(config: Config, replace: bool) -> None:
    given = instance("b" if replace else "new", nics=[nic("AA:00:00:00:00:01")])

    with pytest.raises(ConfigurationError, match=r"instance 'a.test' has its MAC aa:00:00:00:00:01"):
        instances.add_instance(config, given, (), NOW, replace=replace)


@pytest.mark.parametrize(
    "uuid", ["a", "uuid-node", "uuid-group", "uuid-cluster", "net", "d0", "nic-aa:00:00:00:00:01", "xenvg/d0"]
)
def test_whatever_has_a_uuid_takes_it_from_instances(config: Config, uuid: str) -> None:
    with pytest.raises(ConfigurationError, match="something else has already the uuid"):
        instances.add_instance(config, instance(uuid), (), NOW, replace=False)


def test_an_unknown_instance_is_not_replaced(config: Config) -> None:
    with pytest.raises(ConfigurationError, match="nothing to replace"):
        instances.add_instance(config, instance("new"), (), NOW, replace=True)


def test_adding_carries_out_the_notes_in_the_same_change(config: Config) -> None:
    notes = [
        IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.1"),
        IpNote(IpAction.RELEASE, NetworkUuid("net"), "192.0.2.6"),
    ]

    after = instances.add_instance(config, instance("new"), notes, NOW, replace=False)

    assert after.networks[NetworkUuid("net")].reservations == "01000100"
    assert after.networks[NetworkUuid("net")].serial_no == 1
    check_counts(config, after)


def test_an_instance_whose_notes_cannot_be_carried_out_is_not_added(config: Config) -> None:
    with pytest.raises(ReservationError, match="taken by an instance already"):
        instances.add_instance(
            config, instance("new"), [IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.5")], NOW, replace=False
        )


# removing


def test_removing_frees_port_and_addresses_and_leaves_the_disks(config: Config) -> None:
    with_ip = nic("aa:00:00:00:00:02", ip="192.0.2.5", network="net")
    before = attrs.evolve(
        config,
        instances={InstanceUuid("a"): instance("a", disks=["d0"], nics=[with_ip, nic("m")], network_port=11000)},
        cluster=attrs.evolve(config.cluster, tcpudp_port_pool=(11005, 11000)),
    )

    after = instances.remove_instance(before, "a", NOW)

    assert not after.instances
    assert after.cluster.tcpudp_port_pool == (11000, 11005)
    assert after.networks[NetworkUuid("net")].reservations == "00000010"
    assert after.disks == before.disks
    check_counts(before, after, cluster=1)


def test_an_instance_whose_address_is_not_marked_is_not_removed(config: Config) -> None:
    wrong = instance("a", nics=[nic("m", ip="192.0.2.1", network="net")])

    with pytest.raises(ReservationError, match=r"192.0.2.1 of network 'net' is not taken"):
        instances.remove_instance(attrs.evolve(config, instances={InstanceUuid("a"): wrong}), "a", NOW)


def test_removing_an_unknown_instance_changes_nothing(config: Config) -> None:
    assert instances.remove_instance(config, "none", NOW) is config


# status and node


def test_a_status_counts_only_if_it_differs(config: Config) -> None:
    same, unchanged = instances.set_instance_status(config, "a", AdminState.UP, None, None, NOW)
    after, changed = instances.set_instance_status(config, "a", AdminState.DOWN, False, AdminStateSource.USER, NOW)

    assert same is config
    assert unchanged is config.instances[InstanceUuid("a")]
    assert changed is after.instances[InstanceUuid("a")]
    assert (changed.admin_state, changed.disks_active, changed.admin_state_source) == (
        AdminState.DOWN,
        False,
        AdminStateSource.USER,
    )
    check_counts(config, after, a=1, b=0)


def test_the_primary_node_is_set_unseen_and_uncounted(config: Config) -> None:
    after = instances.set_primary_node(config, "a", "nowhere", NOW)

    assert after.instances[InstanceUuid("a")].primary_node == "nowhere"
    check_counts(config, after, a=0)


# disks


@pytest.mark.parametrize(("index", "place"), [(None, 3), (0, 0), (1, 1), (3, 3)])
def test_a_disk_is_attached_at_its_place_and_the_later_ones_are_renamed(
    config: Config, index: int | None, place: int
) -> None:
    after = instances.attach_disk(config, "a", "loose", index, NOW)

    names = names_of(after, "a")
    assert names[place] == ("loose", f"disk/{place}")
    assert [name for _, name in names] == ["disk/0", "disk/1", "disk/2", "disk/3"]
    assert [uuid for uuid, _ in names if uuid != "loose"] == ["d0", "d1", "d2"]
    check_counts(config, after, a=1, b=0)


def test_adding_a_disk_counts_twice(config: Config) -> None:
    after = instances.add_disk(config, "b", disk("new"), None, NOW, replace=False)

    assert names_of(after, "b") == [("new", "disk/0")]
    assert not find_problems(after)
    check_counts(config, after, config=2, b=1)


@pytest.mark.parametrize("index", [-1, 4])
def test_a_place_that_is_not_there_is_refused(config: Config, index: int) -> None:
    with pytest.raises(InvalidRequest, match=f"is 0 to 3, not {index}"):
        instances.attach_disk(config, "a", "loose", index, NOW)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda c: instances.attach_disk(c, "b", "d0", None, NOW),
            ReservationError,
            "attached to instance 'a.test'",
        ),
        (
            lambda c: instances.attach_disk(c, "a", "d0", None, NOW),
            ReservationError,
            "attached to instance 'a.test'",
        ),
        (lambda c: instances.attach_disk(c, "a", "none", None, NOW), ConfigurationError, "no disk"),
        (lambda c: instances.attach_disk(c, "none", "loose", None, NOW), ConfigurationError, "no instance"),
        (
            lambda c: instances.add_disk(c, "b", disk("d0"), None, NOW, replace=False),
            ConfigurationError,
            "has already the uuid 'd0'",
        ),
        (
            lambda c: instances.add_disk(c, "b", disk("d0"), None, NOW, replace=True),
            ReservationError,
            "attached to instance 'a.test'",
        ),
        (
            lambda c: instances.add_disk(c, "b", disk("none"), None, NOW, replace=True),
            ConfigurationError,
            "nothing to replace",
        ),
        (lambda c: instances.detach_disk(c, "none", "d0", NOW), ConfigurationError, "no instance"),
        (lambda c: instances.remove_disk(c, "b", "d0", NOW), ProgrammerError, "attached to instance 'a.test'"),
        (lambda c: instances.set_instance_status(c, "none", None, None, None, NOW), ConfigurationError, "no instance"),
        (lambda c: instances.set_primary_node(c, "none", "uuid-node", NOW), ConfigurationError, "no instance"),
    ],
)
def test_a_refusal_says_what_is_in_the_way(
    config: Config, change: Callable[[Config], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        change(config)


def test_a_detached_disk_keeps_its_name_and_the_later_ones_move_up(config: Config) -> None:
    after = instances.detach_disk(config, "a", "d1", NOW)

    assert names_of(after, "a") == [("d0", "disk/0"), ("d2", "disk/1")]
    assert after.disks[DiskUuid("d1")].iv_name == "disk/1"
    check_counts(config, after, a=1)
    assert instances.detach_disk(after, "a", "d1", NOW) is after


def test_a_removed_disk_is_gone_and_the_cluster_counts_it(config: Config) -> None:
    after = instances.remove_disk(config, "a", "d0", NOW)

    assert names_of(after, "a") == [("d1", "disk/0"), ("d2", "disk/1")]
    assert "d0" not in after.disks
    check_counts(config, after, cluster=1, a=1)
    assert instances.remove_disk(after, "a", "d0", NOW) is after


def test_a_disk_added_just_as_it_is_stored_counts_as_two_changes() -> None:
    config = attrs.evolve(
        small_config(), instances={InstanceUuid("i"): instance("i")}, disks={DiskUuid("d"): disk("d")}
    )

    after = instances.add_disk(config, "i", disk("d"), None, 2000.0, replace=True)

    assert (after.serial_no, after.mtime) == (config.serial_no + 2, 2000.0)
    assert after.instances["i"].disks == ("d",)  # type: ignore[index]
