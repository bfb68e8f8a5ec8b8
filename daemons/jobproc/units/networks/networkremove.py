"""OP_NETWORK_REMOVE and OP_NETWORK_RENAME: take a network out of the cluster, or give it another name.

Source: opcodes.md 4 and 6.2, NETWORK_REMOVE and NETWORK_RENAME.
"""

from collections.abc import Sequence
from typing import ClassVar

import attrs

from common.errors import PrerequisiteError
from common.locks import LockLevel, LockMode, LockRequest, member_lock
from common.objects.kinds import NetworkUuid
from common.opcodes.base import OpCode
from common.opcodes.network import OpNetworkRemove, OpNetworkRename
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.networks.networklookup import check_name_is_free, network_called, network_still


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
