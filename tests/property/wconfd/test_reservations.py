"""Reservations of MACs, secrets, volumes and minors against a twin of plain sets."""

from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from common.errors import ReservationError
from common.locks import Owner
from daemons.wconfd.core.reservations import (
    Reservations,
    allocate_minors,
    decode,
    drbd_map,
    encode,
    generate_mac,
    reserve_mac,
    reserve_volume,
)
from tests.support.configs import small_config

OWNERS = st.sampled_from([Owner(1, "/1"), Owner(2, "/1"), Owner("x", "/2")])
DISKS = st.sampled_from(["d1", "d2", "d3"])
NODES = st.lists(st.sampled_from(["uuid-node", "n2", "n3"]), max_size=3)


class Reserving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.config = small_config()
        self.state = Reservations()
        self.macs: set[tuple[Owner, str]] = set()
        self.volumes: set[tuple[Owner, str]] = set()
        self.minors: set[tuple[str, int, str]] = set()

    @rule(owner=OWNERS, number=st.integers(0, 4))
    def reserve_mac(self, owner: Owner, number: int) -> None:
        mac = f"aa:00:00:00:00:0{number}"
        try:
            self.state = reserve_mac(self.state, self.config, owner, mac)
        except ReservationError:
            assert mac in {taken for _, taken in self.macs}
        else:
            assert mac not in {taken for _, taken in self.macs}
            self.macs.add((owner, mac))

    @rule(owner=OWNERS)
    def generate_mac(self, owner: Owner) -> None:
        numbers = count()
        self.state, mac = generate_mac(
            self.state, self.config, owner, None, lambda size: next(numbers).to_bytes(size, "big")
        )
        free = next(
            mac
            for number in count()
            if (mac := f"aa:00:00:00:00:{number:02x}") not in {taken for _, taken in self.macs}
        )
        assert mac == free
        self.macs.add((owner, mac))

    @rule(owner=OWNERS, name=st.sampled_from(["vg/a", "vg/b"]))
    def reserve_volume(self, owner: Owner, name: str) -> None:
        try:
            self.state = reserve_volume(self.state, self.config, owner, name)
        except ReservationError:
            assert name in {taken for _, taken in self.volumes}
        else:
            assert name not in {taken for _, taken in self.volumes}
            self.volumes.add((owner, name))

    @rule(disk=DISKS, nodes=NODES)
    def allocate(self, disk: str, nodes: list[str]) -> None:
        try:
            self.state, minors = allocate_minors(self.config, self.state, disk, nodes)
        except ReservationError:
            assert len(set(nodes)) < len(nodes)
            return
        for node, minor in zip(nodes, minors, strict=True):
            taken = {other for on, other, _ in self.minors if on == node}
            assert minor == next(free for free in count() if free not in taken)
            self.minors.add((node, minor, disk))

    @rule(disk=DISKS)
    def release(self, disk: str) -> None:
        self.state = self.state.without_minors(disk)
        self.minors = {entry for entry in self.minors if entry[2] != disk}

    @rule(owner=OWNERS)
    def drop(self, owner: Owner) -> None:
        self.state = self.state.without_owner(owner)
        self.macs = {entry for entry in self.macs if entry[0] != owner}
        self.volumes = {entry for entry in self.volumes if entry[0] != owner}

    @invariant()
    def agrees(self) -> None:
        assert {(owner, mac) for owner, macs in self.state.macs.rows() for mac in macs} == self.macs
        assert {(owner, name) for owner, names in self.state.volumes.rows() for name in names} == self.volumes
        found = drbd_map(self.config, self.state)
        assert {(node, minor, disk) for node, minors in found.items() for minor, disk in minors.items()} == self.minors
        assert self.state.owners() == {owner for owner, _ in self.macs | self.volumes}

    @invariant()
    def survives_a_restart(self) -> None:
        assert decode(encode(self.state)) == self.state


TestReserving = Reserving.TestCase
