"""Opcodes on exports of instances.

Source: opcodes.md 4, 6.2.
"""

from typing import ClassVar

import attrs

from common.lockdecl import ALL_EXCLUSIVE, LockRules, exclusive
from common.locks import LockLevel
from common.opcodes.instance import OnInstance
from common.opcodes.types import ExportMode, ExportTarget, JsonList, NonEmpty, Number, Whole


@attrs.frozen(kw_only=True)
class OpBackupPrepare(OnInstance):
    """Tell what the export of an instance needs."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name")}

    mode: ExportMode


@attrs.frozen(kw_only=True)
class OpBackupExport(OnInstance):
    """Export an instance, to a node or to another cluster."""

    LOCKS: ClassVar[LockRules] = {LockLevel.INSTANCE: exclusive("instance_name"), LockLevel.NODE: ALL_EXCLUSIVE}

    compress: str = "none"
    shutdown_timeout: Whole = 120
    # name, or a list for a remote export
    target_node: ExportTarget
    target_node_uuid: NonEmpty | None = None
    shutdown: bool = True
    remove_instance: bool = False
    ignore_remove_failures: bool = False
    mode: ExportMode = ExportMode.LOCAL
    x509_key_name: JsonList | None = None
    destination_x509_ca: NonEmpty | None = None
    zero_free_space: bool = False
    zeroing_timeout_fixed: int | None = None
    zeroing_timeout_per_mib: Number | None = None
    long_sleep: bool = False


@attrs.frozen(kw_only=True)
class OpBackupRemove(OnInstance):
    """Remove the exports of an instance."""

    LOCKS: ClassVar[LockRules] = {LockLevel.NODE: ALL_EXCLUSIVE}
