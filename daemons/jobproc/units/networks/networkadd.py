"""OP_NETWORK_ADD: creates a network, with its pool of addresses.

The first and the last address are reserved, and the gateway; with the check of conflicts also those of the nodes and
the master, as far as they lie in the network.

Source: opcodes.md 4 and 6.2, NETWORK_ADD; wconfd.md 2.4.
"""

import uuid as uuids
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import ClassVar

import attrs

from common.errors import PrerequisiteError, ReservationError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.networks.addresspool import Pool
from common.objects.networks.network import Network
from common.objects.tags import check_tags
from common.opcodes.base import OpCode
from common.opcodes.network import OpNetworkAdd
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.networks.networklookup import check_name_is_free
from daemons.jobproc.units.networks.networkvalues import (
    checked_address,
    checked_gateway,
    checked_gateway6,
    checked_mac_prefix,
    checked_subnet,
    checked_subnet6,
    is_inside,
)


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

    def _first_pool(self) -> Pool:
        """The pool without the first address, the last one and the gateway."""
        block, pool = checked_subnet(self._network.network), Pool.of(self._network)
        never = [str(block.network_address), str(block.broadcast_address)]
        for address in [*never, self._network.gateway]:
            if address is not None:
                pool = pool.marked_external(address, taken=True)
        return pool

    def _reserved(self, pool: Pool, context: UnitContext) -> Pool:
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

    def _without_own(self, pool: Pool, block: IPv4Network, address: str, what: str, done: str) -> Pool:
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
