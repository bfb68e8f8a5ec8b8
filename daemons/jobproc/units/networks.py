"""The opcodes on networks."""

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network
from typing import ClassVar, Final, TypeVar

import attrs

from common.errors import PrerequisiteError, ReservationError, wrong_input
from common.locks import LockLevel
from common.objects.addresspool import AddressPool
from common.objects.config import Network, Nic, NodeGroup, PartialNicParams
from common.objects.kinds import NetworkUuid, NicMode, check_tags
from common.objects.networkvalues import (
    checked_address,
    checked_gateway,
    checked_gateway6,
    checked_mac_prefix,
    checked_subnet,
    checked_subnet6,
    is_inside,
)
from common.opcodes.base import OpCode
from common.opcodes.network import (
    OpNetworkAdd,
    OpNetworkConnect,
    OpNetworkDisconnect,
    OpNetworkRemove,
    OpNetworkRename,
    OpNetworkSetParams,
)
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.objects import GROUP, NETWORK, AddUnit, ChangeUnit, ObjectKind, RemoveUnit, RenameUnit

# OP_NETWORK_ADD: creates a network, with its pool of addresses.
#
# The first and the last address are reserved, and the gateway; with the check of conflicts also those of the nodes and
# the master, as far as they lie in the network.
#
# Source: opcodes.md 4 and 6.2, NETWORK_ADD; wconfd.md 2.4.


class NetworkAddUnit(AddUnit[OpNetworkAdd, Network]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkAdd
    KIND: ClassVar[ObjectKind[Network]] = NETWORK

    def changed(self, context: UnitContext) -> Network:
        op = self.op
        block = checked_subnet(op.network)
        check_tags(op.tags)
        network6 = checked_subnet6(op.network6) if op.network6 else None
        network = Network(
            name=op.network_name,
            network=str(block),
            gateway=checked_gateway(op.gateway, block) if op.gateway else None,
            network6=network6,
            gateway6=checked_gateway6(op.gateway6, network6) if op.gateway6 else None,
            mac_prefix=checked_mac_prefix(op.mac_prefix) if op.mac_prefix else None,
            tags=frozenset(op.tags),
            uuid=self.uuid,
            serial_no=0,
        )
        pool = self._reserved(_first_pool(network, block), block, context)
        return attrs.evolve(network, reservations=pool.used, ext_reservations=pool.external)

    def _reserved(self, pool: AddressPool, block: IPv4Network, context: UnitContext) -> AddressPool:
        """The pool without the addresses of nodes and master, and those that the opcode names."""
        if self.op.conflicts_check:
            for node in context.config.nodes:
                for address in dict.fromkeys((node.primary_ip, node.secondary_ip)):
                    what = f"IP address '{address}' of node '{node.name}'"
                    done = f"Reserved IP address of node '{node.name}' ({address})"
                    pool = self._without_own(pool, block, address, what, done)
            address = context.config.cluster.master_ip
            what = f"cluster master IP address ({address})"
            pool = self._without_own(pool, block, address, what, f"Reserved {what}")
        for text in self.op.add_reserved_ips or ():
            try:
                pool = pool.marked_external(checked_address(text, "reserved address"), taken=True)
            except ReservationError as error:
                raise wrong_input(error.message) from error
        return pool

    def _without_own(self, pool: AddressPool, block: IPv4Network, address: str, what: str, done: str) -> AddressPool:
        """The pool without an address of the cluster's, if it lies in the range. Args: done: what is then told."""
        if not address or not is_inside(address, block):
            return pool
        try:
            reserved = pool.marked_external(address, taken=True)
        except ReservationError as error:
            self.notes.append(f" - WARNING: Cannot reserve {what}: {error.message}")
            return pool
        self.notes.append(f" - INFO: {done}")
        return reserved


def _first_pool(network: Network, block: IPv4Network) -> AddressPool:
    """The pool without the first address, the last one and the gateway."""
    pool = AddressPool.of(network)
    for address in (str(block.network_address), str(block.broadcast_address), network.gateway):
        if address is not None:
            pool = pool.marked_external(address, taken=True)
    return pool


# OP_NETWORK_SET_PARAMS: changes the gateways, the MAC prefix and the reserved addresses of a network.
#
# A value `none` removes a gateway, the IPv6 range or the MAC prefix. Addresses that are reserved already, or are not
# when they are to be freed, are told of in the job's log, and do not fail the job, as in Ganeti.
#
# Source: opcodes.md 4 and 6.2, NETWORK_SET_PARAMS; wconfd.md 2.4.


# value that removes one
NONE: Final = "none"


class NetworkSetParamsUnit(ChangeUnit[OpNetworkSetParams, Network]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkSetParams
    KIND: ClassVar[ObjectKind[Network]] = NETWORK
    VALUES: ClassVar[Sequence[str]] = (
        *("gateway", "network6", "gateway6", "mac_prefix", "add_reserved_ips", "remove_reserved_ips"),
    )

    def is_given(self, parameter: str) -> bool:
        return bool(getattr(self.op, parameter))

    def expand_names(self, context: UnitContext) -> None:
        if self.op.gateway and (self.op.add_reserved_ips or self.op.remove_reserved_ips):
            raise wrong_input("gateway and reserved addresses cannot be changed at once; use two jobs")
        super().expand_names(context)

    def changed(self, context: UnitContext) -> Network:
        self._pool = AddressPool.of(self.target)
        network = self._with_gateway(self._with_values(self.target))
        for address in self._addresses(self.op.add_reserved_ips):
            self._mark(address, taken=True)
        for address in self._addresses(self.op.remove_reserved_ips):
            if address == network.gateway:
                self.notes.append(" - WARNING: Cannot unreserve Gateway's IP")
            else:
                self._mark(address, taken=False)
        return attrs.evolve(network, ext_reservations=self._pool.external)

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
                self.notes.append(f" - WARNING: Gateway is already {wanted}")
            return network
        if wanted is not None:
            self._reserve_gateway(wanted)
        if network.gateway is not None and self._pool.is_external(self._pool.place(network.gateway)):
            self._pool = self._pool.marked_external(network.gateway, taken=False)
        return attrs.evolve(network, gateway=wanted)

    def _reserve_gateway(self, address: str) -> None:
        if self._pool.is_used(self._pool.place(address)):
            raise PrerequisiteError(f"gateway {address} is not available: an instance has this address")
        try:
            self._pool = self._pool.marked_external(address, taken=True)
        except ReservationError as error:
            raise PrerequisiteError(f"gateway {address} is not available: {error.message}; free it first") from error

    def _addresses(self, texts: Sequence[str] | None) -> Iterator[str]:
        yield from (checked_address(text, "reserved address") for text in texts or ())

    def _mark(self, address: str, *, taken: bool) -> None:
        try:
            self._pool = self._pool.marked_external(address, taken=taken)
        except ReservationError as error:
            what = "reserve" if taken else "release"
            self.notes.append(f" - WARNING: Cannot {what} IP address {address}: {error.message}")


def _changed(wish: str | None, value: str | None) -> str | None:
    """The value after this wish; an empty wish changes nothing."""
    if not wish:
        return value
    return None if wish.lower() == NONE else wish


# OP_NETWORK_REMOVE and OP_NETWORK_RENAME: take a network out of the cluster, or give it another name.
#
# Source: opcodes.md 4 and 6.2, NETWORK_REMOVE and NETWORK_RENAME.


class NetworkRemoveUnit(RemoveUnit[OpNetworkRemove, Network]):
    """A network that is connected to a group, or that instances use, is not removed."""

    OPCODE: ClassVar[type[OpCode]] = OpNetworkRemove
    KIND: ClassVar[ObjectKind[Network]] = NETWORK

    def check_prereq(self, context: UnitContext) -> None:
        config, network = context.config, self.target
        if groups := [group.name for group in config.groups if network.uuid in group.networks]:
            raise PrerequisiteError(
                f"network '{network.name}' is still connected to {_listed('group', groups)}; "
                "disconnect it first: gnt-network disconnect"
            )
        if users := config.network_instances(network.uuid):
            raise PrerequisiteError(
                f"network '{network.name}' is used by {_listed('instance', users)}; change their interfaces first"
            )


class NetworkRenameUnit(RenameUnit[OpNetworkRename, Network]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkRename
    KIND: ClassVar[ObjectKind[Network]] = NETWORK


def _listed(what: str, names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return f"{what} {shown}" if len(names) == 1 else f"{what}s {shown}{' and others' if len(names) > 3 else ''}"


# OP_NETWORK_CONNECT and OP_NETWORK_DISCONNECT: joins a network to a node group, or ends that.
#
# With the check of conflicts a network is not connected to a group whose instances have addresses of its range; and it
# is never disconnected while instances of the group have interfaces in it.
#
# Source: opcodes.md 4 and 6.2, NETWORK_CONNECT and NETWORK_DISCONNECT.


C_co = TypeVar("C_co", bound=OpNetworkConnect | OpNetworkDisconnect, covariant=True)


class ConnectionUnit(ChangeUnit[C_co, NodeGroup]):
    """The common base of both: the group is what changes; the network and the group's instances are shared."""

    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP

    def expand_names(self, context: UnitContext) -> None:
        config = context.config
        self.network = NETWORK.named(config, self.op.network_name)
        super().expand_names(context)
        self.instances = config.group_instances(self.target.uuid)
        others = {LockLevel.NETWORK: [self.network.uuid], LockLevel.INSTANCE: self.instances}
        self.lock_names = {**self.lock_names, **others}

    @property
    def is_connected(self) -> bool:
        return self.network.uuid in self.target.networks

    def write(self, context: UnitContext) -> None:
        if self.after is not self.target:
            context.config.update(self.after)

    def check_conflicts(self, context: UnitContext, action: str, is_conflict: Callable[[Nic], bool]) -> None:
        """Raises: PrerequisiteError: instances of the group have such interfaces; the job's log tells them."""
        conflicts = {
            each.name: [f"nic{index}/{nic.ip}" for index, nic in enumerate(each.nics) if is_conflict(nic)]
            for each in context.config.instances
            if each.name in self.instances
        }
        found = [f"{name}: {', '.join(nics)}" for name, nics in conflicts.items() if nics]
        if found:
            context.feedback(
                f" - WARNING: IP addresses from network '{self.network.name}', which is about to {action} node group "
                f"'{self.target.name}', are in use: {', '.join(found)}"
            )
            raise PrerequisiteError(
                f"instances of node group '{self.target.name}' have conflicting addresses, as {found[0]}; "
                "remove or change these interfaces first"
            )


class NetworkConnectUnit(ConnectionUnit[OpNetworkConnect]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkConnect

    def changed(self, context: UnitContext) -> NodeGroup:
        op = self.op
        if op.network_mode is NicMode.POOL:
            # it says where an address comes from, not how an interface is connected
            modes = ", ".join(mode.value for mode in NicMode if mode is not NicMode.POOL)
            raise wrong_input(f"a network cannot be connected with mode 'pool'; modes are {modes}")
        if self.is_connected:
            context.feedback(f" - WARNING: Network '{op.network_name}' is already mapped to group '{self.target.name}'")
            return self.target
        if op.conflicts_check:
            block = checked_subnet(self.network.network)
            self.check_conflicts(context, "connect to", lambda nic: bool(nic.ip) and is_inside(str(nic.ip), block))
        params = PartialNicParams(mode=op.network_mode, link=op.network_link, vlan=op.network_vlan)
        return attrs.evolve(self.target, networks={**self.target.networks, NetworkUuid(self.network.uuid): params})


class NetworkDisconnectUnit(ConnectionUnit[OpNetworkDisconnect]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkDisconnect

    def changed(self, context: UnitContext) -> NodeGroup:
        network, group = self.network.uuid, self.target
        if not self.is_connected:
            context.feedback(f" - WARNING: Network '{self.op.network_name}' is not mapped to group '{group.name}'")
            return group
        self.check_conflicts(context, "disconnect from", lambda nic: nic.network == network)
        left = {uuid: params for uuid, params in group.networks.items() if uuid != network}
        return attrs.evolve(group, networks=left)
