"""The pool of a network: which of its addresses are taken, by instances and from outside.

A pool is two strings of 0 and 1, one character for each address from the network's base on. A
network that lacks one has it made, all free.

Source: wconfd.md 2.4 and 11 (BUG-9).
"""

import ipaddress
from collections.abc import Collection
from typing import Final, Self

import attrs

from common.errors import ReservationError
from common.objects.config import Network

# greatest size of a pool: beyond it the two strings would be megabytes in every copy of the configuration
MAX_ADDRESSES: Final = 1 << 20


@attrs.frozen
class AddressPool:
    """A value. Places are counted from the network's base."""

    _name: str
    _base: int
    # strings of 0 and 1, both of one length
    used: str
    external: str

    @classmethod
    def of(cls, network: Network) -> Self:
        """Raises: ReservationError: the network is too large, or a string has not its size."""
        block = ipaddress.IPv4Network(network.network, strict=False)
        size = block.num_addresses
        if size > MAX_ADDRESSES:
            raise ReservationError(
                f"network '{network.name}' ({block}) has {size} addresses; pools have at most {MAX_ADDRESSES}, "
                "split the network"
            )
        free = "0" * size
        used, external = network.reservations or free, network.ext_reservations or free
        for name, bits in (("reservations", used), ("ext_reservations", external)):
            if len(bits) != size:
                raise ReservationError(
                    f"network '{network.name}' ({block}) has {size} addresses, but its {name} have {len(bits)}; "
                    "correct them in the configuration"
                )
        return cls(network.name, int(block.network_address), used, external)

    def place(self, address: str) -> int:
        """Raises: ReservationError: it is outside of the network."""
        place = int(ipaddress.IPv4Address(address)) - self._base
        if not 0 <= place < len(self.used):
            raise ReservationError(f"address {address} is not in network '{self._name}'")
        return place

    def is_used(self, place: int) -> bool:
        return self.used[place] == "1"

    def is_external(self, place: int) -> bool:
        return self.external[place] == "1"

    def lowest_free(self, but: Collection[str]) -> str:
        """The lowest address that is taken in neither string, nor one of `but`.

        Raises: ReservationError: there is none.
        Cost: O(addresses) in C, O(`but`) beside.
        """
        # the first character is the highest bit
        taken = f"{int(self.used, 2) | int(self.external, 2):0{len(self.used)}b}"
        place = taken.find("0")
        while place >= 0:
            address = str(ipaddress.IPv4Address(self._base + place))
            if address not in but:
                return address
            place = taken.find("0", place + 1)
        raise ReservationError(f"network '{self._name}' is full: all its {len(taken)} addresses are taken or noted")

    def marked(self, address: str, *, used: bool) -> "AddressPool":
        """With an address taken by an instance, or freed by it.

        Raises: ReservationError: it is so already, or outside of the network.
        """
        place = self.place(address)
        if self.is_used(place) is used:
            state = "taken by an instance already" if used else "not taken by an instance"
            raise ReservationError(f"address {address} of network '{self._name}' is {state}")
        return attrs.evolve(self, used=f"{self.used[:place]}{int(used)}{self.used[place + 1 :]}")

    def marked_external(self, address: str, *, taken: bool) -> "AddressPool":
        """With an address taken from outside, or free of that.

        Raises: ReservationError: it is so already, or outside of the network.
        """
        place = self.place(address)
        if self.is_external(place) is taken:
            raise ReservationError(f"IP {address} is {'already' if taken else 'not'} externally reserved")
        return attrs.evolve(self, external=f"{self.external[:place]}{int(taken)}{self.external[place + 1 :]}")
