"""Opcodes on the disks of an instance.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.lockdecl import ALL_EXCLUSIVE, SOME_EXCLUSIVE, SOME_SHARED, LockRules, exclusive
from common.locks import LockLevel
from common.opcodes.instance import OnInstance
from common.opcodes.structures import RecreatedDisk, all_or_none_changed
from common.opcodes.types import DiskIndex, NonEmpty, ReplaceDisksMode, Whole


@attrs.frozen(kw_only=True)
class OpInstanceReplaceDisks(OnInstance):
    """Replace disks of a mirrored instance."""

    early_release: bool = False
    ignore_ipolicy: bool = False
    mode: ReplaceDisksMode
    disks: tuple[DiskIndex, ...] = ()
    remote_node: NonEmpty | None = None
    remote_node_uuid: NonEmpty | None = None
    iallocator: NonEmpty | None = None

    def lock_rules(self) -> LockRules:
        rules = {
            LockLevel.INSTANCE: exclusive("instance_name"),
            LockLevel.NODE: SOME_EXCLUSIVE,
            LockLevel.NODE_RES: SOME_EXCLUSIVE,
        }
        return rules | {LockLevel.NODEGROUP: SOME_SHARED} if self.iallocator is not None else rules


@attrs.frozen(kw_only=True)
class OpInstanceActivateDisks(OnInstance):
    """Make an instance's disks usable on its node."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name"), LockLevel.NODE: SOME_EXCLUSIVE}

    ignore_size: bool = False
    wait_for_sync: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceDeactivateDisks(OnInstance):
    """Shut an instance's disks down."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: ALL_EXCLUSIVE, LockLevel.NODE: SOME_EXCLUSIVE}

    force: bool = False


@attrs.frozen(kw_only=True)
class OpInstanceRecreateDisks(OnInstance):
    """Create an instance's disks again."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.NODEGROUP: SOME_SHARED,
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: SOME_EXCLUSIVE,
        LockLevel.NODE_RES: SOME_EXCLUSIVE,
    }

    # empty: all disks
    disks: tuple[RecreatedDisk, ...] = attrs.field(default=(), validator=all_or_none_changed)
    nodes: tuple[NonEmpty, ...] = ()
    node_uuids: tuple[NonEmpty, ...] | None = None
    iallocator: NonEmpty | None = None


@attrs.frozen(kw_only=True)
class OpInstanceGrowDisk(OnInstance):
    """Make a disk larger."""

    LOCKS: ClassVar[LockRules] = {
        LockLevel.INSTANCE: exclusive("instance_name"),
        LockLevel.NODE: SOME_EXCLUSIVE,
        LockLevel.NODE_RES: SOME_EXCLUSIVE,
    }

    wait_for_sync: bool = True
    disk: DiskIndex
    # MiB to add, or the new size if `absolute`
    amount: Whole
    absolute: bool = False
    ignore_ipolicy: bool = False
