"""The opcodes on networks."""

import ipaddress
import re
import uuid as uuids
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError, ReservationError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.addresspool import AddressPool
from common.objects.config import Network, Nic, NodeGroup, PartialNicParams
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import GroupUuid, NetworkUuid, NicMode, check_tags
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
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups import current_group, group_of

# Finding the network that an opcode names, and the names that networks may have.
#
# Source: opcodes.md 4.


def network_called(config: ConfigIndex, name: str) -> Network:
    """The network with this uuid or name. Raises: PrerequisiteError: there is none."""
    by_uuid = config.config.networks.get(NetworkUuid(name))
    return by_uuid or find_named(config.networks, [name], "network", is_host=False)[0]


def network_still(config: ConfigIndex, uuid: NetworkUuid, name: str) -> Network:
    """The network that was found before its lock was held. Raises: PrerequisiteError: it was removed meanwhile."""
    found = config.config.networks.get(uuid)
    if found is None:
        raise PrerequisiteError(f"network '{name}' was removed meanwhile", "unknown_entity")
    return found


def check_name_is_free(config: ConfigIndex, name: str) -> None:
    """Raises: PrerequisiteError: a network has this name, or this uuid."""
    for other in config.networks:
        if name in (other.name, other.uuid):
            raise PrerequisiteError(f"there is a network '{name}' already; its uuid is {other.uuid}", "already_exists")


# The values of a network: ranges, gateways, MAC prefixes. Pure.
#
# Source: opcodes.md 4, NETWORK_ADD and NETWORK_SET_PARAMS; wconfd.md 7.3.


# prefix lengths that a pool may have, as in Ganeti
WIDEST: Final = 16
NARROWEST: Final = 30
# value that removes one
NONE: Final = "none"
_MAC_PREFIX: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){2}", re.ASCII)


def checked_subnet(text: str) -> ipaddress.IPv4Network:
    """The IPv4 range. Raises: PrerequisiteError: it is none, or has the wrong size."""
    if "/" not in text:
        raise _wrong(f"network '{text:.60}' has no prefix length; write it as 192.0.2.0/24")
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise _wrong(f"'{text:.60}' is not an IPv4 network: {_reason(error)}; write it as 192.0.2.0/24") from None
    if not WIDEST <= block.prefixlen <= NARROWEST:
        raise _wrong(
            f"network {block} has {block.num_addresses} addresses; networks have prefix lengths "
            f"from /{WIDEST} to /{NARROWEST}"
        )
    return block


def checked_address(text: str, what: str) -> str:
    """An IPv4 address. Args: what: beginning of an error's text. Raises: PrerequisiteError: it is none."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise _wrong(f"{what} '{text:.60}' is not an IPv4 address") from None


def checked_gateway(text: str, block: ipaddress.IPv4Network) -> str:
    """Raises: PrerequisiteError: the gateway is no address, or not one that a host of the network may have."""
    address = ipaddress.IPv4Address(checked_address(text, "gateway"))
    if address not in block:
        raise _wrong(f"gateway {address} is not in network {block}")
    if address in (block.network_address, block.broadcast_address):
        raise _wrong(f"gateway {address} is the first or the last address of network {block}, which no host may have")
    return str(address)


def checked_subnet6(text: str) -> str:
    """Raises: PrerequisiteError: the text is not an IPv6 network."""
    if "/" not in text:
        raise _wrong(f"IPv6 network '{text:.60}' has no prefix length; write it as 2001:db8::/64")
    try:
        return str(ipaddress.IPv6Network(text))
    except ValueError as error:
        raise _wrong(f"'{text:.60}' is not an IPv6 network: {_reason(error)}; write it as 2001:db8::/64") from None


def checked_gateway6(text: str, network6: str | None) -> str:
    """Raises: PrerequisiteError: the gateway is no IPv6 address, or neither in the network nor link-local."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise _wrong(f"IPv6 gateway '{text:.60}' is not an IPv6 address") from None
    if network6 is not None and not address.is_link_local and address not in ipaddress.IPv6Network(network6):
        raise _wrong(f"IPv6 gateway {address} is not in network {network6}")
    return str(address)


def checked_mac_prefix(text: str) -> str:
    """Three octets, in small letters. Raises: PrerequisiteError: the text is something else, or for groups of hosts."""
    prefix = text.lower()
    if not _MAC_PREFIX.fullmatch(prefix):
        raise _wrong(f"MAC prefix '{text:.60}' is not three octets; write it as aa:00:55")
    if int(prefix[:2], 16) & 1:
        raise _wrong(f"MAC prefix '{text}' is for groups of hosts: its first octet must be even")
    return prefix


def is_inside(address: str, block: ipaddress.IPv4Network) -> bool:
    """Whether an address, which may be one of IPv6, is in the range."""
    return ipaddress.ip_address(address) in block


def _reason(error: ValueError) -> str:
    """The part of the library's text that does not repeat the value."""
    text = str(error)
    return "it has host bits set" if "host bits" in text else "wrong address or prefix length"


def _wrong(text: str) -> PrerequisiteError:
    return PrerequisiteError(text, "wrong_input")


# OP_NETWORK_ADD: creates a network, with its pool of addresses.
#
# The first and the last address are reserved, and the gateway; with the check of conflicts also those of the nodes and
# the master, as far as they lie in the network.
#
# Source: opcodes.md 4 and 6.2, NETWORK_ADD; wconfd.md 2.4.


class NetworkAddUnit(LogicalUnit[OpNetworkAdd]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkAdd

    def expand_names(self, context: UnitContext) -> None:
        self._uuid = str(uuids.uuid4())

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.NETWORK:
            return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)]
        return super().declare_locks(level, context)

    def check_prereq(self, context: UnitContext) -> None:
        op = self.op
        check_name_is_free(context.config, op.network_name)
        block = checked_subnet(op.network)
        check_tags(op.tags)
        network6 = checked_subnet6(op.network6) if op.network6 else None
        self._network = Network(
            name=op.network_name,
            network=str(block),
            gateway=checked_gateway(op.gateway, block) if op.gateway else None,
            network6=network6,
            gateway6=checked_gateway6(op.gateway6, network6) if op.gateway6 else None,
            mac_prefix=checked_mac_prefix(op.mac_prefix) if op.mac_prefix else None,
            tags=frozenset(op.tags),
            uuid=self._uuid,
            serial_no=0,
        )
        self._notes: list[str] = []
        self._pool = self._reserved(self._first_pool(), context)

    def run(self, context: UnitContext) -> None:
        for note in self._notes:
            context.feedback(note)
        pool = self._pool
        network = attrs.evolve(self._network, reservations=pool.used, ext_reservations=pool.external)
        context.config.change_networks([network])

    def _first_pool(self) -> AddressPool:
        """The pool without the first address, the last one and the gateway."""
        block, pool = checked_subnet(self._network.network), AddressPool.of(self._network)
        never = [str(block.network_address), str(block.broadcast_address)]
        for address in [*never, self._network.gateway]:
            if address is not None:
                pool = pool.marked_external(address, taken=True)
        return pool

    def _reserved(self, pool: AddressPool, context: UnitContext) -> AddressPool:
        """The pool without the addresses of nodes and master, and those that the opcode names."""
        if self.op.conflicts_check:
            block = checked_subnet(self._network.network)
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
                raise PrerequisiteError(error.message, "wrong_input") from error
        return pool

    def _without_own(self, pool: AddressPool, block: IPv4Network, address: str, what: str, done: str) -> AddressPool:
        """The pool without an address of the cluster's, if it lies in the range. Args: done: what is then told."""
        if not address or not is_inside(address, block):
            return pool
        try:
            reserved = pool.marked_external(address, taken=True)
        except ReservationError as error:
            self._notes.append(f" - WARNING: Cannot reserve {what}: {error.message}")
            return pool
        self._notes.append(f" - INFO: {done}")
        return reserved


# OP_NETWORK_SET_PARAMS: changes the gateways, the MAC prefix and the reserved addresses of a network.
#
# A value `none` removes a gateway, the IPv6 range or the MAC prefix. Addresses that are reserved already, or are not
# when they are to be freed, are told of in the job's log, and do not fail the job, as in Ganeti.
#
# Source: opcodes.md 4 and 6.2, NETWORK_SET_PARAMS; wconfd.md 2.4.


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
        self._pool = AddressPool.of(before)
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
            self._notes.append(f" - WARNING: Cannot {what} IP address {address}: {error.message}")


def _changed(wish: str | None, value: str | None) -> str | None:
    """The value after this wish; an empty wish changes nothing."""
    if not wish:
        return value
    return None if wish.lower() == NONE else wish


# OP_NETWORK_REMOVE and OP_NETWORK_RENAME: take a network out of the cluster, or give it another name.
#
# Source: opcodes.md 4 and 6.2, NETWORK_REMOVE and NETWORK_RENAME.


class NetworkRemoveUnit(LogicalUnit[OpNetworkRemove]):
    """A network that is connected to a group, or that instances use, is not removed."""

    OPCODE: ClassVar[type[OpCode]] = OpNetworkRemove
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._uuid = NetworkUuid(network_called(context.config, self.op.network_name).uuid)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.NETWORK:
            return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)]
        return super().declare_locks(level, context)

    def check_prereq(self, context: UnitContext) -> None:
        config = context.config
        network = network_still(config, self._uuid, self.op.network_name)
        if groups := [group.name for group in config.groups if self._uuid in group.networks]:
            raise PrerequisiteError(
                f"network '{network.name}' is still connected to {_listed('group', groups)}; "
                "disconnect it first: gnt-network disconnect"
            )
        if users := config.network_instances(self._uuid):
            raise PrerequisiteError(
                f"network '{network.name}' is used by {_listed('instance', users)}; change their interfaces first"
            )

    def run(self, context: UnitContext) -> None:
        context.config.change_networks(removed=[self._uuid])


class NetworkRenameUnit(LogicalUnit[OpNetworkRename]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkRename
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._uuid = NetworkUuid(network_called(context.config, self.op.network_name).uuid)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        return [LockRequest(member_lock(level, self._uuid), LockMode.EXCLUSIVE)] if level is LockLevel.NETWORK else ()

    def check_prereq(self, context: UnitContext) -> None:
        check_name_is_free(context.config, self.op.new_name)
        self._network = network_still(context.config, self._uuid, self.op.network_name)

    def run(self, context: UnitContext) -> str:
        """Return the new name."""
        context.config.change_networks([attrs.evolve(self._network, name=self.op.new_name)])
        return self.op.new_name


def _listed(what: str, names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return f"{what} {shown}" if len(names) == 1 else f"{what}s {shown}{' and others' if len(names) > 3 else ''}"


# OP_NETWORK_CONNECT and OP_NETWORK_DISCONNECT: joins a network to a node group, or ends that.
#
# With the check of conflicts a network is not connected to a group whose instances have addresses of its range; and it
# is never disconnected while instances of the group have interfaces in it.
#
# Source: opcodes.md 4 and 6.2, NETWORK_CONNECT and NETWORK_DISCONNECT.


@attrs.frozen
class NetworkInGroup:
    """A network and a group, found before any lock is held."""

    network: NetworkUuid
    group: GroupUuid
    # names of the group's instances
    instances: tuple[str, ...]

    @classmethod
    def named(cls, config: ConfigIndex, op: OpNetworkConnect | OpNetworkDisconnect) -> "NetworkInGroup":
        """Raises: PrerequisiteError: there is no such network or group."""
        network, group = network_called(config, op.network_name), group_of(config, op.group_name)
        return cls(NetworkUuid(network.uuid), GroupUuid(group.uuid), group_instances(config, group.uuid))

    def checked(self, config: ConfigIndex, op: OpNetworkConnect | OpNetworkDisconnect) -> NodeGroup:
        """The group, with its lock held. Raises: PrerequisiteError: something has changed meanwhile."""
        network_still(config, self.network, op.network_name)
        return current_group(config, self.group, op.group_name)

    def check_instances(self, config: ConfigIndex, op: OpNetworkConnect | OpNetworkDisconnect) -> None:
        """Raises: PrerequisiteError: the group has other instances than those that are locked."""
        if group_instances(config, self.group) != self.instances:
            raise PrerequisiteError(f"instances of node group '{op.group_name}' have changed meanwhile; try again")


def group_instances(config: ConfigIndex, group: str) -> tuple[str, ...]:
    """The names of the instances whose primary or secondary nodes are in the group."""
    names = {
        name
        for node in config.group_nodes(group)
        for of in (config.primaries, config.secondaries)
        for name in of(node.uuid)
    }
    return tuple(sorted(names))


class NetworkConnectUnit(LogicalUnit[OpNetworkConnect]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkConnect
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._place = NetworkInGroup.named(context.config, self.op)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.NODEGROUP:
            return [LockRequest(member_lock(level, self._place.group), LockMode.EXCLUSIVE)]
        if not self.op.conflicts_check:
            return ()
        if level is LockLevel.NETWORK:
            return [LockRequest(member_lock(level, self._place.network), LockMode.SHARED)]
        return _shared_instances(level, self._place)

    def check_prereq(self, context: UnitContext) -> None:
        config, op = context.config, self.op
        self._group = self._place.checked(config, op)
        if op.conflicts_check:
            self._place.check_instances(config, op)
        _check_mode(op)
        self._is_connected = self._place.network in self._group.networks
        if self._is_connected:
            context.feedback(f" - WARNING: Network '{op.network_name}' is already mapped to group '{self._group.name}'")
        elif op.conflicts_check:
            block = checked_subnet(config.config.networks[self._place.network].network)
            _check_conflicts(
                context, self._place, "connect to", lambda nic: bool(nic.ip) and is_inside(str(nic.ip), block)
            )

    def run(self, context: UnitContext) -> None:
        if self._is_connected:
            return
        op = self.op
        params = PartialNicParams(mode=op.network_mode, link=op.network_link, vlan=op.network_vlan)
        networks = {**self._group.networks, self._place.network: params}
        context.config.update(attrs.evolve(self._group, networks=networks))


class NetworkDisconnectUnit(LogicalUnit[OpNetworkDisconnect]):
    OPCODE: ClassVar[type[OpCode]] = OpNetworkDisconnect
    is_optimistic: ClassVar[bool] = True

    def expand_names(self, context: UnitContext) -> None:
        self._place = NetworkInGroup.named(context.config, self.op)

    def is_dynamic(self, level: LockLevel) -> bool:
        return False

    def declare_locks(self, level: LockLevel, context: UnitContext) -> Sequence[LockRequest]:
        if level is LockLevel.NODEGROUP:
            return [LockRequest(member_lock(level, self._place.group), LockMode.EXCLUSIVE)]
        return _shared_instances(level, self._place)

    def check_prereq(self, context: UnitContext) -> None:
        config, op, place = context.config, self.op, self._place
        self._group = place.checked(config, op)
        place.check_instances(config, op)
        self._is_connected = place.network in self._group.networks
        if not self._is_connected:
            context.feedback(f" - WARNING: Network '{op.network_name}' is not mapped to group '{self._group.name}'")
        else:
            _check_conflicts(context, place, "disconnect from", lambda nic: nic.network == place.network)

    def run(self, context: UnitContext) -> None:
        if self._is_connected:
            left = {uuid: params for uuid, params in self._group.networks.items() if uuid != self._place.network}
            context.config.update(attrs.evolve(self._group, networks=left))


def _shared_instances(level: LockLevel, place: NetworkInGroup) -> Sequence[LockRequest]:
    if level is not LockLevel.INSTANCE:
        return ()
    return [LockRequest(member_lock(level, name), LockMode.SHARED) for name in place.instances]


def _check_mode(op: OpNetworkConnect) -> None:
    """Raises: PrerequisiteError: the mode says where an address comes from, not how an interface is connected."""
    if op.network_mode is NicMode.POOL:
        modes = ", ".join(mode.value for mode in NicMode if mode is not NicMode.POOL)
        raise PrerequisiteError(f"a network cannot be connected with mode 'pool'; modes are {modes}", "wrong_input")


def _check_conflicts(
    context: UnitContext, place: NetworkInGroup, action: str, is_conflict: Callable[[Nic], bool]
) -> None:
    """Raises: PrerequisiteError: instances of the group have such interfaces; the job's log tells them."""
    config = context.config
    conflicts = {
        each.name: [f"nic{index}/{nic.ip}" for index, nic in enumerate(each.nics) if is_conflict(nic)]
        for each in config.instances
        if each.name in place.instances
    }
    found = [f"{name}: {', '.join(nics)}" for name, nics in conflicts.items() if nics]
    if found:
        network, group = config.config.networks[place.network].name, config.config.nodegroups[place.group].name
        context.feedback(
            f" - WARNING: IP addresses from network '{network}', which is about to {action} node group '{group}', "
            f"are in use: {', '.join(found)}"
        )
        raise PrerequisiteError(
            f"instances of node group '{group}' have conflicting addresses, as {found[0]}; "
            "remove or change these interfaces first"
        )
