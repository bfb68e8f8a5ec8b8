"""Addresses: pools, notes, and what becomes of notes (wconfd.md 2.4)."""

from typing import Any

import attrs
import pytest

from common.errors import InvalidRequest, ReservationError
from common.locks import Owner
from common.objects.addresspool import AddressPool
from common.objects.codec import decode_object
from common.objects.config import Config, Network
from common.objects.kinds import NetworkUuid
from daemons.wconfd.core.reservations import (
    IpAction,
    IpNote,
    Reservations,
    generate_ip,
    read_address,
    release_ip,
    reserve_ip,
    with_notes,
)
from tests.support.configs import small_config

A, B = Owner(1, "/a"), Owner(2, "/b")
NOTHING = Reservations()


def network(**changes: Any) -> Network:
    value = {"name": "net1", "network": "192.0.2.8/29", "uuid": "net", "serial_no": 1, **changes}
    return decode_object(value, Network, "network")


def config_with(**changes: Any) -> Config:
    return attrs.evolve(small_config(), networks={NetworkUuid("net"): network(**changes)})


def reserve(
    state: Reservations, owner: Owner, address: str, config: Config | None = None, *, external: bool = True
) -> Reservations:
    return reserve_ip(state, config or config_with(), owner, "net", address, check_external=external)


@pytest.mark.parametrize("text", ["192.0.2.256", "192.0.2", "192.0.2.01", "1.2.3.4.5", "::1", "", "192.0.2.1 "])
def test_only_four_numbers_up_to_255_are_an_address(text: str) -> None:
    with pytest.raises(InvalidRequest, match="expected an IPv4 address"):
        read_address(text)


def test_the_lowest_address_free_in_both_pools_and_noted_by_nobody_is_taken() -> None:
    config = config_with(reservations="11000000", ext_reservations="00100000")
    state = release_ip(reserve(NOTHING, B, "192.0.2.11"), B, "net", "192.0.2.12")

    state, address = generate_ip(state, config, A, "net")

    assert address == "192.0.2.13"
    assert state.ips.of(A) == {IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.13")}


def test_a_full_network_says_so() -> None:
    state = NOTHING
    for _ in range(8):
        state, _ = generate_ip(state, config_with(), A, "net")

    with pytest.raises(ReservationError, match="network 'net1' is full: all its 8 addresses"):
        generate_ip(state, config_with(), B, "net")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("192.0.2.7", "192.0.2.7 is not in network 'net1'"),
        ("192.0.2.16", "192.0.2.16 is not in network 'net1'"),
        ("192.0.2.8", "192.0.2.8 is taken by an instance"),
        ("192.0.2.9", "192.0.2.9 is taken from outside"),
        ("192.0.2.10", "is reserved by job/2"),
    ],
)
def test_an_address_that_is_not_to_be_had_is_refused(address: str, text: str) -> None:
    config = config_with(reservations="10000000", ext_reservations="01000000")

    with pytest.raises(ReservationError, match=text):
        reserve(reserve(NOTHING, B, "192.0.2.10"), A, address, config)


def test_what_is_taken_from_outside_can_be_had_on_request() -> None:
    config = config_with(ext_reservations="11111111")

    assert reserve(NOTHING, A, "192.0.2.9", config, external=False).ips.of(A)


def test_a_release_is_noted_unseen_but_once() -> None:
    state = release_ip(NOTHING, A, "no such network", "203.0.113.9")

    with pytest.raises(ReservationError, match="is reserved by job/1"):
        release_ip(state, B, "no such network", "203.0.113.9")


def test_taking_and_freeing_one_address_are_two_notes() -> None:
    state = release_ip(reserve(NOTHING, A, "192.0.2.10"), B, "net", "192.0.2.10")

    assert len(state.ips.of(A)) == len(state.ips.of(B)) == 1


def test_notes_are_carried_out_releases_first() -> None:
    config = config_with(reservations="00100000")
    notes = [
        IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.10"),
        IpNote(IpAction.RELEASE, NetworkUuid("net"), "192.0.2.10"),
    ]

    assert with_notes(config, notes).networks[NetworkUuid("net")].reservations == "00100000"


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.8"), "taken by an instance already"),
        (IpNote(IpAction.RELEASE, NetworkUuid("net"), "192.0.2.9"), "not taken by an instance"),
        (IpNote(IpAction.RELEASE, NetworkUuid("net"), "198.51.100.1"), "not in network"),
        (IpNote(IpAction.RELEASE, NetworkUuid("none"), "192.0.2.8"), "no network 'none'"),
    ],
)
def test_one_note_that_changes_nothing_spoils_them_all(note: IpNote, text: str) -> None:
    good = IpNote(IpAction.RESERVE, NetworkUuid("net"), "192.0.2.12")

    with pytest.raises(ReservationError, match=text):
        with_notes(config_with(reservations="10000000"), [good, note])


def test_missing_pools_are_made_for_networks_of_any_size() -> None:
    config = config_with(network="10.1.0.0/16")

    state, address = generate_ip(NOTHING, config, A, "net")
    after = with_notes(config, state.ips.of(A))

    assert address == "10.1.0.0"
    assert after.networks[NetworkUuid("net")].reservations == "1" + "0" * 65535
    assert generate_ip(NOTHING, after, A, "net")[1] == "10.1.0.1"
    last = reserve(NOTHING, A, "10.1.255.255", config)
    assert with_notes(config, last.ips.of(A)).networks[NetworkUuid("net")].reservations == "0" * 65535 + "1"


def test_a_network_given_by_an_address_within_it_begins_at_its_base() -> None:
    assert AddressPool.of(network(network="192.0.2.13/29")).place("192.0.2.8") == 0


def test_a_network_too_large_or_with_a_pool_of_another_size_is_refused() -> None:
    with pytest.raises(ReservationError, match=r"'net1' \(10.0.0.0/8\) has 16777216 addresses; pools have at most"):
        generate_ip(NOTHING, config_with(network="10.0.0.0/8"), A, "net")
    with pytest.raises(ReservationError, match="has 8 addresses, but its ext_reservations have 7"):
        generate_ip(NOTHING, config_with(ext_reservations="0000000"), A, "net")
