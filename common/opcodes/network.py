"""Opcodes on networks.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.access import Role
from common.lockdecl import ALL_SHARED, SOME_EXCLUSIVE, SOME_SHARED, LockRules, exclusive, shared
from common.locks import LockLevel
from common.objects.kinds import NicMode
from common.opcodes.base import OpCode
from common.opcodes.types import NonEmpty


@attrs.frozen(kw_only=True)
class OnNetwork(OpCode):
    """The common base of opcodes that change one network."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "network_name"
    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: ALL_SHARED, LockLevel.NETWORK: exclusive("network_name")}

    network_name: NonEmpty


@attrs.frozen(kw_only=True)
class OpNetworkAdd(OnNetwork):
    """Create a network."""

    network: str
    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: NonEmpty | None = None
    add_reserved_ips: tuple[str, ...] | None = None
    conflicts_check: bool = True
    tags: tuple[NonEmpty, ...] = ()

    def lock_rules(self) -> LockRules:
        # the network's lock is named by a uuid that it gets when the job runs
        rules: LockRules = {LockLevel.NETWORK: SOME_EXCLUSIVE}
        return {LockLevel.NODE: ALL_SHARED, **rules} if self.conflicts_check else rules


@attrs.frozen(kw_only=True)
class OpNetworkRemove(OnNetwork):
    """Remove a network."""

    force: bool = False


@attrs.frozen(kw_only=True)
class OpNetworkRename(OnNetwork):
    """Give a network another name; since 3.1."""

    SUMMARY: ClassVar[str | None] = None
    LOCKS: ClassVar[LockRules] = {LockLevel.NETWORK: exclusive("network_name")}

    new_name: NonEmpty


@attrs.frozen(kw_only=True)
class OpNetworkSetParams(OnNetwork):
    """Change a network; unset parameters keep their values."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NETWORK: exclusive("network_name")}

    gateway: str | None = None
    network6: str | None = None
    gateway6: str | None = None
    mac_prefix: NonEmpty | None = None
    add_reserved_ips: tuple[str, ...] | None = None
    remove_reserved_ips: tuple[str, ...] | None = None


@attrs.frozen(kw_only=True)
class OpNetworkConnect(OpCode):
    """Connect a network to a node group."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "network_name"

    group_name: NonEmpty
    network_name: NonEmpty
    network_mode: NicMode
    network_link: NonEmpty
    network_vlan: str = ""
    conflicts_check: bool = True

    def lock_rules(self) -> LockRules:
        rules: LockRules = {LockLevel.NODEGROUP: exclusive("group_name")}
        if not self.conflicts_check:
            return rules
        return {**rules, LockLevel.INSTANCE: SOME_SHARED, LockLevel.NETWORK: shared("network_name")}


@attrs.frozen(kw_only=True)
class OpNetworkDisconnect(OpCode):
    """Disconnect a network from a node group."""

    SUBMIT_ROLE: ClassVar[Role] = Role.ADMIN
    SUMMARY: ClassVar[str | None] = "network_name"
    LOCKS: ClassVar[LockRules] = {LockLevel.NODEGROUP: exclusive("group_name"), LockLevel.INSTANCE: SOME_SHARED}

    group_name: NonEmpty
    network_name: NonEmpty
