"""Changes of networks: what is stored, what is refused, and what a second delivery does (wconfd.md 2.3, 2.4)."""

from typing import Any

import attrs
import pytest

from common.errors import ConfigurationError, Conflict, ReservationError
from common.objects.codec import decode_object
from common.objects.config import Config, Network, PartialNicParams
from common.objects.kinds import GroupUuid, InstanceUuid, NetworkUuid
from daemons.wconfd.core.config.groupchanges import NetworkChange, change_networks
from tests.support.configs import UUIDS, instance, small_config

NOW = 2000.0
NET = NetworkUuid("net")


def network(**changes: Any) -> Network:
    value = {"name": "net1", "network": "192.0.2.8/30", "uuid": "net", "serial_no": 1, **changes}
    return decode_object(value, Network, "network")


def config_with(*networks: Network) -> Config:
    return attrs.evolve(small_config(), networks={NetworkUuid(each.uuid): each for each in networks or [network()]})


def refused(config: Config, *networks: Network, removed: tuple[NetworkUuid, ...] = ()) -> str:
    with pytest.raises((Conflict, ConfigurationError, ReservationError)) as raised:
        change_networks(config, NetworkChange(networks=networks, removed=removed), NOW)
    return raised.value.message


def test_a_network_is_added_and_another_removed_in_one_change() -> None:
    config = config_with()
    change = NetworkChange(networks=(network(uuid="two", serial_no=0),), removed=(NET,))

    after, stamp = change_networks(config, change, NOW)

    assert set(after.networks) == {"two"}
    added = after.networks[NetworkUuid("two")]
    assert (added.serial_no, added.ctime, added.mtime) == (1, NOW, NOW)
    assert (stamp, after.cluster.serial_no) == ((config.serial_no + 1, NOW), config.cluster.serial_no + 1)


def test_the_second_delivery_of_a_change_is_told_the_same_and_changes_nothing() -> None:
    change = NetworkChange(removed=(NET,))
    after, stamp = change_networks(config_with(), change, NOW)

    assert change_networks(after, change, NOW + 1, stamp) == (after, stamp)


def test_addresses_that_instances_took_meanwhile_stay_taken_by_a_change_of_other_values() -> None:
    read = network(reservations="0000", ext_reservations="1001")
    config = config_with(attrs.evolve(read, reservations="0100"))

    after, _ = change_networks(config, NetworkChange(networks=(attrs.evolve(read, gateway="192.0.2.10"),)), NOW)

    stored = after.networks[NET]
    assert (stored.gateway, stored.reservations, stored.ext_reservations) == ("192.0.2.10", "0100", "1001")
    assert (stored.serial_no, stored.mtime) == (2, NOW)
    assert after.cluster.serial_no == config.cluster.serial_no


def test_a_network_that_was_changed_since_it_was_read_is_not_replaced() -> None:
    config = config_with(network(serial_no=5))

    assert refused(config, network(serial_no=4)).startswith("network 'net1' was changed since it was read: its serial")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (network(uuid="two", serial_no=0), "there is a network 'net1' already"),
        (network(uuid="uuid-node", name="new", serial_no=0), "something else has already the uuid 'uuid-node'"),
        (network(network="192.0.2.0/30"), "the range of network 'net1' cannot be changed; make another network"),
        (
            network(ext_reservations="10"),
            "network 'net1' (192.0.2.8/30) has 4 addresses, but its ext_reservations have",
        ),
    ],
)
def test_what_would_make_networks_unsound_is_refused(given: Network, text: str) -> None:
    assert refused(config_with(), given).startswith(text)


def test_a_network_in_use_is_not_removed() -> None:
    config = config_with()
    (group,) = config.nodegroups.values()
    connected = attrs.evolve(group, networks={NET: PartialNicParams()})
    nic = {"mac": "aa:00:00:00:00:01", "nicparams": {}, "network": "net", "uuid": "nic"}
    used = attrs.evolve(config, instances={InstanceUuid("i1"): instance("i1", nics=[nic])})

    assert refused(attrs.evolve(config, nodegroups={GroupUuid(UUIDS.group): connected}), removed=(NET,)) == (
        "network 'net1' is connected to group 'default'; disconnect it first"
    )
    assert refused(used, removed=(NET,)) == ("instance 'i1.test' has an interface in network 'net1'; change that first")
    assert refused(config, removed=(NetworkUuid("two"),)) == "there is no network with the uuid 'two'"
