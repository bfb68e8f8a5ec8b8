"""OP_NETWORK_SET_PARAMS: changes the gateways, the MAC prefix and the reserved addresses of a network.

A value `none` removes a gateway, the IPv6 range or the MAC prefix. Addresses that are reserved already, or are not when
they are to be freed, are told of in the job's log, and do not fail the job, as in Ganeti.

Source: opcodes.md 4 and 6.2, NETWORK_SET_PARAMS; wconfd.md 2.4.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError, ReservationError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.kinds import NetworkUuid
from common.objects.networks.addresspool import Pool
from common.objects.networks.network import Network
from common.opcodes.base import OpCode
from common.opcodes.network import OpNetworkSetParams
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.networks.networklookup import network_called, network_still
from daemons.jobproc.units.networks.networkvalues import (
    NONE,
    checked_address,
    checked_gateway,
    checked_gateway6,
    checked_mac_prefix,
    checked_subnet,
    checked_subnet6,
)

_CHANGES: Final = ("gateway", "network6", "gateway6", "mac_prefix", "add_reserved_ips", "remove_reserved_ips")


class NetworkSetParamsUnit(LogicalUnit[OpNetworkSetParams]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkSetParams
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        op = self.op
        if not any(getattr(op, name) for name in _CHANGES):
            raise PrerequisiteError("there is nothing to change; name at least one parameter", "wrong_input")
        if op.gateway and (op.add_reserved_ips or op.remove_reserved_ips):
            raise PrerequisiteError(
                "gateway and reserved addresses cannot be changed at once; use two jobs", "wrong_input"
            )
        self._uuid = NetworkUuid(network_called(context.config, op.network_name).uuid)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)] if level is LockLevel.NETWORK else ()

    def check_prereq(self, context: UnitContext) -> None:
        before = network_still(context.config, self._uuid, self.op.network_name)
        self._pool = Pool.of(before)
        self._notes: list[str] = []
        self._network = self._with_gateway(self._with_values(before))
        for address in self._addresses(self.op.add_reserved_ips):
            self._mark(address, taken=True)
        for address in self._addresses(self.op.remove_reserved_ips):
            if address == self._network.gateway:
                self._notes.append(" - WARNING: Cannot unreserve Gateway's IP")
            else:
                self._mark(address, taken=False)

    def run(self, context: UnitContext) -> None:
        for note in self._notes:
            context.feedback(note)
        context.config.change_networks([attrs.evolve(self._network, ext_reservations=self._pool.external)])

    def _with_values(self, network: Network) -> Network:
        """The network with the values that have nothing to do with its pool."""
        op = self.op
        network6 = _changed(op.network6, network.network6)
        network6 = checked_subnet6(network6) if network6 else None
        gateway6 = _changed(op.gateway6, network.gateway6)
        mac_prefix = _changed(op.mac_prefix, network.mac_prefix)
        return attrs.evolve(
            network,
            network6=network6,
            gateway6=checked_gateway6(gateway6, network6) if gateway6 else None,
            mac_prefix=checked_mac_prefix(mac_prefix) if mac_prefix else None,
        )

    def _with_gateway(self, network: Network) -> Network:
        """The network with its new gateway, whose address is reserved in the place of the old one's."""
        wanted = _changed(self.op.gateway, network.gateway)
        if wanted is not None:
            wanted = checked_gateway(wanted, checked_subnet(network.network)) if self.op.gateway else wanted
        if wanted == network.gateway:
            if self.op.gateway:
                self._notes.append(f" - WARNING: Gateway is already {wanted}")
            return network
        if wanted is not None:
            self._reserve_gateway(wanted)
        if network.gateway is not None and self._pool.is_external(self._pool.place(network.gateway)):
            self._pool = self._pool.marked_external(network.gateway, taken=False)
        return attrs.evolve(network, gateway=wanted)

    def _reserve_gateway(self, address: str) -> None:
        if self._pool.is_used(self._pool.place(address)):
            raise PrerequisiteError(f"gateway {address} cannot be had: an instance has this address")
        try:
            self._pool = self._pool.marked_external(address, taken=True)
        except ReservationError as error:
            raise PrerequisiteError(f"gateway {address} cannot be had: {error.message}; free it first") from error

    def _addresses(self, texts: Sequence[str] | None) -> Iterator[str]:
        yield from (checked_address(text, "reserved address") for text in texts or ())

    def _mark(self, address: str, *, taken: bool) -> None:
        try:
            self._pool = self._pool.marked_external(address, taken=taken)
        except ReservationError as error:
            what = "reserve" if taken else "release"
            self._notes.append(f" - WARNING: Cannot {what} IP address {address}: {error.message}")


def _changed(wish: str | None, value: str | None) -> str | None:
    """The value after this wish; an empty wish changes nothing."""
    if not wish:
        return value
    return None if wish.lower() == NONE else wish
