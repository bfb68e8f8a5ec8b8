"""OP_NETWORK_CONNECT and OP_NETWORK_DISCONNECT: joins a network to a node group, or ends that.

With the check of conflicts a network is not connected to a group whose instances have addresses of its range; and it is
never disconnected while instances of the group have interfaces in it.

Source: opcodes.md 4 and 6.2, NETWORK_CONNECT and NETWORK_DISCONNECT.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.index import ConfigIndex
from common.objects.kinds import GroupUuid, NetworkUuid, NicMode
from common.objects.networks.nic import Nic
from common.objects.nodegroup import NodeGroup
from common.objects.params import PartialNicParams
from common.opcodes.base import OpCode
from common.opcodes.network import OpNetworkConnect, OpNetworkDisconnect
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.groups.groupnames import current_group, group_of
from daemons.jobproc.units.networks.networklookup import network_called, network_still
from daemons.jobproc.units.networks.networkvalues import checked_subnet, is_inside


@attrs.frozen
class Place:
    """A network and a group, found before any lock is held."""

    network: NetworkUuid
    group: GroupUuid
    # names of the group's instances
    instances: tuple[str, ...]

    @classmethod
    def named(cls, config: ConfigIndex, op: OpNetworkConnect | OpNetworkDisconnect) -> "Place":
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
        self._place = Place.named(context.config, self.op)

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
        self._place = Place.named(context.config, self.op)

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


def _shared_instances(level: LockLevel, place: Place) -> Sequence[LockRequest]:
    if level is not LockLevel.INSTANCE:
        return ()
    return [LockRequest(member_lock(level, name), LockMode.SHARED) for name in place.instances]


def _check_mode(op: OpNetworkConnect) -> None:
    """Raises: PrerequisiteError: the mode says where an address comes from, not how an interface is connected."""
    if op.network_mode is NicMode.POOL:
        modes = ", ".join(mode.value for mode in NicMode if mode is not NicMode.POOL)
        raise PrerequisiteError(f"a network cannot be connected with mode 'pool'; modes are {modes}", "wrong_input")


def _check_conflicts(context: UnitContext, place: Place, action: str, is_conflict: Callable[[Nic], bool]) -> None:
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
