"""Pools and notes against a twin that keeps sets of numbers."""

import ipaddress

import attrs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.errors import ReservationError
from common.locks import Owner
from common.objects.addresspool import AddressPool
from common.objects.codec import decode_object
from common.objects.config import Config, Network
from common.objects.kinds import NetworkUuid
from daemons.wconfd.core.reservations import (
    Reservations,
    decode,
    encode,
    generate_ip,
    release_ip,
    reserve_ip,
    with_notes,
)
from tests.support.configs import small_config

BASE, SIZE = ipaddress.IPv4Address("192.0.2.16"), 8
# one below and one above the network as well
PLACES = st.integers(-1, SIZE)
OWNERS = st.sampled_from([Owner(1, "/1"), Owner(2, "/2"), Owner("x", "/1")])


def bits(taken: set[int], size: int = SIZE) -> str:
    return "".join("1" if place in taken else "0" for place in range(size))


def network_config(**changes: object) -> Config:
    value = {"name": "n", "network": f"{BASE}/29", "uuid": "net", "serial_no": 1, **changes}
    return attrs.evolve(small_config(), networks={NetworkUuid("net"): decode_object(value, Network, "network")})


class Pools(RuleBasedStateMachine):
    """Owners note, commit and drop; the twin is two sets of places and one of notes."""

    def __init__(self) -> None:
        super().__init__()
        self.external = {3, 7}
        self.config = network_config(ext_reservations=bits(self.external))
        self.state = Reservations()
        self.used: set[int] = set()
        # (owner, is a release, place)
        self.notes: set[tuple[Owner, bool, int]] = set()

    def is_noted(self, place: int, *releases: bool) -> bool:
        return any(noted == place and release in releases for _, release, noted in self.notes)

    @rule(owner=OWNERS, place=PLACES, external=st.booleans())
    def reserve(self, owner: Owner, place: int, external: bool) -> None:
        may = 0 <= place < SIZE and place not in self.used and not self.is_noted(place, False)
        may = may and not (external and place in self.external)
        try:
            self.state = reserve_ip(self.state, self.config, owner, "net", str(BASE + place), check_external=external)
        except ReservationError:
            assert not may
        else:
            assert may
            self.notes.add((owner, False, place))

    @rule(owner=OWNERS, place=PLACES)
    def release(self, owner: Owner, place: int) -> None:
        may = not self.is_noted(place, True)
        try:
            self.state = release_ip(self.state, owner, "net", str(BASE + place))
        except ReservationError:
            assert not may
        else:
            assert may
            self.notes.add((owner, True, place))

    @rule(owner=OWNERS)
    def generate(self, owner: Owner) -> None:
        free = [
            place
            for place in range(SIZE)
            if place not in self.used | self.external and not self.is_noted(place, True, False)
        ]
        try:
            self.state, address = generate_ip(self.state, self.config, owner, "net")
        except ReservationError:
            assert not free
        else:
            assert address == str(BASE + free[0])
            self.notes.add((owner, False, free[0]))

    @rule(owner=OWNERS)
    def commit(self, owner: Owner) -> None:
        own = [(release, place) for noted, release, place in self.notes if noted == owner]
        freed = {place for release, place in own if release}
        taken = {place for release, place in own if not release}
        may = freed <= self.used and not taken & (self.used - freed)
        before = self.config
        try:
            self.config = with_notes(self.config, self.state.ips.of(owner))
        except ReservationError:
            assert not may
            assert self.config is before
        else:
            assert may
            self.used = self.used - freed | taken

    @rule(owner=OWNERS)
    def drop(self, owner: Owner) -> None:
        self.state = self.state.without_owner(owner)
        self.notes = {note for note in self.notes if note[0] != owner}

    @precondition(lambda self: self.notes)
    @rule()
    def restart(self) -> None:
        self.state = decode(encode(self.state))

    @invariant()
    def agrees(self) -> None:
        stored = self.config.networks[NetworkUuid("net")].reservations or bits(set())
        assert stored == bits(self.used)
        assert self.state.owners() == {owner for owner, _, _ in self.notes}
        for owner in self.state.owners():
            assert len(self.state.ips.of(owner)) == sum(noted == owner for noted, _, _ in self.notes)


TestPools = Pools.TestCase


@given(
    length=st.integers(16, 30),
    taken=st.sets(st.integers(0, 2**16), max_size=40),
    low=st.integers(0, 300),
    but=st.sets(st.integers(0, 400), max_size=30),
)
def test_the_lowest_free_place_is_that_of_a_scan(length: int, taken: set[int], low: int, but: set[int]) -> None:
    size = 1 << (32 - length)
    used, external = {*range(min(low, size - 1)), *taken}, {place * 2 for place in taken}
    base = ipaddress.IPv4Address("10.20.0.0")
    network = network_config(
        network=f"{base}/{length}", reservations=bits(used, size), ext_reservations=bits(external, size)
    ).networks[NetworkUuid("net")]
    expected = next((place for place in range(size) if place not in used | external | but), None)

    try:
        found = AddressPool.of(network).lowest_free({str(base + place) for place in but})
    except ReservationError:
        assert expected is None
    else:
        assert expected is not None
        assert found == str(base + expected)
