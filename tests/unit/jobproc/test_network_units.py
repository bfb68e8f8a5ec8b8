"""The opcodes on networks (opcodes.md 4 and 6.2; wconfd.md 2.4)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError, TagError
from common.objects.codec import decode_object
from common.objects.config import Config, Network, PartialNicParams
from common.objects.index import ConfigIndex
from common.objects.kinds import GroupUuid, InstanceUuid, NetworkUuid
from common.opcodes.base import OpCode
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.networks import (
    NetworkAddUnit,
    NetworkConnectUnit,
    NetworkDisconnectUnit,
    NetworkRemoveUnit,
    NetworkRenameUnit,
    NetworkSetParamsUnit,
)
from tests.support.configs import UUIDS, instance, small_config

BGL = {"cluster/BGL": "shared"}
CONNECT = {"network_name": "net1", "group_name": "default", "network_mode": "bridged", "network_link": "br0"}


def config_with(*, is_connected: bool = False, nics: Any = None, **changes: Any) -> Config:
    """A network net1, perhaps connected to the only group, perhaps with an instance."""
    value = {"name": "net1", "network": "192.0.2.8/29", "uuid": "net", "serial_no": 1, **changes}
    value = {"reservations": "00000000", "ext_reservations": "10000001", **value}
    config = attrs.evolve(small_config(), networks={NetworkUuid("net"): decode_object(value, Network, "network")})
    if nics is not None:
        config = attrs.evolve(config, instances={InstanceUuid("i1"): instance("i1", nics=nics)})
    if is_connected:
        (group,) = config.nodegroups.values()
        group = attrs.evolve(group, networks={NetworkUuid("net"): PartialNicParams()})
        config = attrs.evolve(config, nodegroups={GroupUuid(UUIDS.group): group})
    return config


def nic(ip: str | None, network: str | None = None) -> dict[str, object]:
    return {"mac": "aa:00:00:00:00:01", "nicparams": {}, "ip": ip, "network": network, "uuid": "nic"}


def done(tmp_path: Path, unit: type[LogicalUnit[OpCode]], config: Config, **parameters: object) -> UnitTrial:
    trial = UnitTrial(tmp_path, config=config)
    trial.carry_out(unit, parameters)
    return trial


def refusal(tmp_path: Path, unit: type[LogicalUnit[OpCode]], config: Config, **parameters: object) -> str:
    with pytest.raises((PrerequisiteError, TagError)) as raised:
        done(tmp_path, unit, config, **parameters)
    return raised.value.message


def network_of(trial: UnitTrial) -> Network:
    (network,) = trial.config.networks.values()
    return network


def added(tmp_path: Path, **parameters: object) -> UnitTrial:
    config = small_config()
    config = attrs.evolve(config, cluster=attrs.evolve(config.cluster, master_ip="192.0.2.1"))
    return done(tmp_path, NetworkAddUnit, config, **{"network_name": "net1", **parameters})


def changed(tmp_path: Path, config: Config, **parameters: object) -> UnitTrial:
    return done(tmp_path, NetworkSetParamsUnit, config, network_name="net1", **parameters)


def test_a_new_network_has_its_ends_its_gateway_and_the_addresses_of_the_cluster_reserved(tmp_path: Path) -> None:
    trial = added(
        tmp_path,
        network="192.0.2.0/29",
        gateway="192.0.2.6",
        network6="2001:db8::/64",
        gateway6="2001:db8::1",
        mac_prefix="AA:00:55",
        add_reserved_ips=["192.0.2.3"],
        tags=["rack:1"],
    )

    network = network_of(trial)
    assert (network.reservations, network.ext_reservations) == ("00000000", "11010011")
    assert (network.gateway, network.network6, network.gateway6) == ("192.0.2.6", "2001:db8::/64", "2001:db8::1")
    assert (network.mac_prefix, network.tags) == ("aa:00:55", frozenset({"rack:1"}))
    assert trial.feedback == [
        " - INFO: Reserved IP address of node 'node1.test' (192.0.2.1)",
        " - WARNING: Cannot reserve cluster master IP address (192.0.2.1): IP 192.0.2.1 is already externally reserved",
    ]
    assert trial.locks == {**BGL, "node/[lockset]": "shared", f"network/{network.uuid}": "exclusive"}


def test_without_the_check_of_conflicts_a_new_network_has_the_addresses_of_nodes_free(tmp_path: Path) -> None:
    trial = added(tmp_path, network="192.0.2.0/30", conflicts_check=False)

    assert network_of(trial).ext_reservations == "1001"
    assert set(trial.locks) == {"cluster/BGL", f"network/{network_of(trial).uuid}"}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"network": "192.0.2.0"}, "network '192.0.2.0' has no prefix length; write it as 192.0.2.0/24"),
        ({"network": "192.0.2.1/24"}, "'192.0.2.1/24' is not an IPv4 network: it has host bits set; write it as"),
        ({"network": "x/24"}, "'x/24' is not an IPv4 network: wrong address or prefix length; write it as"),
        ({"network": "192.0.2.0/31"}, "network 192.0.2.0/31 has 2 addresses; networks have prefix lengths from /16 to"),
        ({"network": "10.0.0.0/15"}, "network 10.0.0.0/15 has 131072 addresses; networks have prefix lengths"),
        ({"gateway": "192.0.3.1"}, "gateway 192.0.3.1 is not in network 192.0.2.0/24"),
        ({"gateway": "192.0.2.255"}, "gateway 192.0.2.255 is the first or the last address of network 192.0.2.0/24"),
        ({"gateway": "::1"}, "gateway '::1' is not an IPv4 address"),
        ({"network6": "2001:db8::"}, "IPv6 network '2001:db8::' has no prefix length"),
        ({"network6": "2001:db8::1/64"}, "'2001:db8::1/64' is not an IPv6 network: it has host bits set"),
        ({"network6": "2001:db8::/64", "gateway6": "2001:db9::1"}, "IPv6 gateway 2001:db9::1 is not in network"),
        ({"gateway6": "192.0.2.1"}, "IPv6 gateway '192.0.2.1' is not an IPv6 address"),
        ({"mac_prefix": "aa:00"}, "MAC prefix 'aa:00' is not three octets; write it as aa:00:55"),
        ({"mac_prefix": "ab:00:55"}, "MAC prefix 'ab:00:55' is for groups of hosts: its first octet must be even"),
        ({"add_reserved_ips": ["192.0.3.1"]}, "address 192.0.3.1 is not in network 'net1'"),
        ({"add_reserved_ips": ["192.0.2.0"]}, "IP 192.0.2.0 is already externally reserved"),
        ({"tags": ["a b"]}, "the tag 'a b' has other characters than letters"),
    ],
)
def test_a_network_with_wrong_values_is_not_added(tmp_path: Path, parameters: dict[str, object], text: str) -> None:
    given = {"network_name": "net1", "network": "192.0.2.0/24", **parameters}

    assert refusal(tmp_path, NetworkAddUnit, small_config(), **given).startswith(text)


def test_a_link_local_gateway_need_not_be_in_the_range(tmp_path: Path) -> None:
    trial = added(tmp_path, network="198.51.100.0/24", network6="2001:db8::/64", gateway6="fe80::1")

    assert network_of(trial).gateway6 == "fe80::1"


def test_the_name_of_another_network_is_refused(tmp_path: Path) -> None:
    text = "there is a network 'net1' already; its uuid is net"
    two = attrs.evolve(config_with().networks[NetworkUuid("net")], uuid="two", name="two")
    config = attrs.evolve(config_with(), networks={**config_with().networks, NetworkUuid("two"): two})

    assert refusal(tmp_path, NetworkAddUnit, config, network_name="net1", network="192.0.2.0/24") == text
    assert refusal(tmp_path, NetworkRenameUnit, config, network_name="two", new_name="net1") == text


def test_a_network_is_renamed(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(NetworkRenameUnit, {"network_name": "net1", "new_name": "front"}) == "front"
    assert network_of(trial).name == "front"
    assert trial.locks == {**BGL, "network/net": "exclusive"}


def test_a_network_is_removed_once_nothing_uses_it(tmp_path: Path) -> None:
    trial = done(tmp_path, NetworkRemoveUnit, config_with(), network_name="net1")

    assert trial.config.networks == {}
    assert trial.locks == {**BGL, "nodegroup/[lockset]": "shared", "network/net": "exclusive"}
    assert refusal(tmp_path, NetworkRemoveUnit, config_with(is_connected=True), network_name="net1") == (
        "network 'net1' is still connected to group 'default'; disconnect it first: gnt-network disconnect"
    )
    assert refusal(tmp_path, NetworkRemoveUnit, config_with(nics=[nic(None, "net")]), network_name="net1") == (
        "network 'net1' is used by instance 'i1.test'; change their interfaces first"
    )
    assert refusal(tmp_path, NetworkRemoveUnit, small_config(), network_name="net1") == "there is no network 'net1'"


def test_a_new_gateway_is_reserved_and_the_old_one_is_free(tmp_path: Path) -> None:
    config = config_with(gateway="192.0.2.9", ext_reservations="11000001")

    trial = changed(tmp_path, config, gateway="192.0.2.10")

    assert (network_of(trial).gateway, network_of(trial).ext_reservations) == ("192.0.2.10", "10100001")
    assert trial.locks == {**BGL, "network/net": "exclusive"}


def test_none_removes_values(tmp_path: Path) -> None:
    config = config_with(
        gateway="192.0.2.9",
        ext_reservations="11000001",
        network6="2001:db8::/64",
        gateway6="2001:db8::1",
        mac_prefix="aa:00:55",
    )

    network = network_of(changed(tmp_path, config, gateway="none", network6="none", gateway6="none", mac_prefix="none"))

    assert (network.gateway, network.network6, network.gateway6, network.mac_prefix) == (None,) * 4
    assert network.ext_reservations == "10000001"


def test_addresses_are_reserved_and_freed_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    config = config_with(gateway="192.0.2.9", ext_reservations="11010001")

    trial = changed(
        tmp_path,
        config,
        add_reserved_ips=["192.0.2.10", "192.0.2.11"],
        remove_reserved_ips=["192.0.2.9", "192.0.2.11", "192.0.2.13", "192.0.3.1"],
    )

    assert network_of(trial).ext_reservations == "11100001"
    assert trial.feedback == [
        " - WARNING: Cannot reserve IP address 192.0.2.11: IP 192.0.2.11 is already externally reserved",
        " - WARNING: Cannot unreserve Gateway's IP",
        " - WARNING: Cannot release IP address 192.0.2.13: IP 192.0.2.13 is not externally reserved",
        " - WARNING: Cannot release IP address 192.0.3.1: address 192.0.3.1 is not in network 'net1'",
    ]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "there is nothing to change; name at least one parameter"),
        ({"gateway": "192.0.2.9", "add_reserved_ips": ["192.0.2.10"]}, "gateway and reserved addresses cannot be chan"),
        ({"gateway": "192.0.2.9"}, "gateway 192.0.2.9 is not available: an instance has this address"),
        (
            {"gateway": "192.0.2.10"},
            "gateway 192.0.2.10 is not available: IP 192.0.2.10 is already externally reserved",
        ),
        ({"network6": "x"}, "IPv6 network 'x' has no prefix length"),
        ({"add_reserved_ips": ["x"]}, "reserved address 'x' is not an IPv4 address"),
    ],
)
def test_wrong_changes_are_refused(tmp_path: Path, parameters: dict[str, object], text: str) -> None:
    config = config_with(reservations="01000000", ext_reservations="10100001")

    assert refusal(tmp_path, NetworkSetParamsUnit, config, network_name="net1", **parameters).startswith(text)


def test_a_network_is_connected_with_the_parameters_of_its_interfaces(tmp_path: Path) -> None:
    trial = done(tmp_path, NetworkConnectUnit, config_with(nics=[nic("192.0.3.1")]), **CONNECT)

    (group,) = ConfigIndex(trial.config).groups
    assert attrs.asdict(group.networks[NetworkUuid("net")])["link"] == "br0"
    assert trial.locks == {
        **BGL,
        "instance/i1.test": "shared",
        "nodegroup/uuid-group": "exclusive",
        "network/net": "shared",
    }


def test_instances_with_addresses_of_the_range_keep_a_network_from_being_connected(tmp_path: Path) -> None:
    config = config_with(nics=[nic(None), nic("192.0.2.10")])
    trial = UnitTrial(tmp_path, config=config)

    with pytest.raises(
        PrerequisiteError, match=r"^instances of node group .default. have conflicting addresses, as i1"
    ):
        trial.carry_out(NetworkConnectUnit, CONNECT)

    assert trial.feedback == [
        " - WARNING: IP addresses from network 'net1', which is about to connect to node group 'default', are in use: "
        "i1.test: nic1/192.0.2.10"
    ]
    unchecked = done(tmp_path, NetworkConnectUnit, config, **CONNECT, conflicts_check=False)
    assert unchecked.locks == {**BGL, "nodegroup/uuid-group": "exclusive"}


def test_a_second_connection_or_disconnection_is_told_and_changes_nothing(tmp_path: Path) -> None:
    again = done(tmp_path, NetworkConnectUnit, config_with(is_connected=True), **CONNECT)
    ended = done(tmp_path, NetworkDisconnectUnit, config_with(), network_name="net1", group_name="default")

    assert again.feedback == [" - WARNING: Network 'net1' is already mapped to group 'default'"]
    assert ended.feedback == [" - WARNING: Network 'net1' is not mapped to group 'default'"]
    assert again.config_changes == ended.config_changes == []


def test_a_network_is_disconnected_unless_instances_use_it(tmp_path: Path) -> None:
    names = {"network_name": "net1", "group_name": "default"}

    trial = done(tmp_path, NetworkDisconnectUnit, config_with(is_connected=True, nics=[nic("192.0.2.10")]), **names)

    assert ConfigIndex(trial.config).groups[0].networks == {}
    assert trial.locks == {**BGL, "instance/i1.test": "shared", "nodegroup/uuid-group": "exclusive"}
    used = config_with(is_connected=True, nics=[nic("192.0.2.10", "net")])
    assert refusal(tmp_path, NetworkDisconnectUnit, used, **names).startswith("instances of node group 'default' have")


def test_the_mode_that_takes_an_address_from_a_pool_connects_nothing(tmp_path: Path) -> None:
    text = refusal(tmp_path, NetworkConnectUnit, config_with(), **{**CONNECT, "network_mode": "pool"})

    assert text == "a network cannot be connected with mode 'pool'; modes are bridged, routed, openvswitch, ext"
