"""All procedures of node daemons: the calls that have a class here, and what the others would need.

Source: noded.md section 5.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import protocol.noded
from common.errors import NotFound
from protocol.face import requests_of
from protocol.noded.call import AnyCall, NodeCall


class MissingNeed(enum.Enum):
    """What a refused procedure would need."""

    HYPERVISOR = "a hypervisor"
    STORAGE = "a storage backend"
    SYSTEMS = "operating system definitions"
    TRANSFERS = "transfers of instances between clusters"
    ALLOCATOR = "an instance allocator"
    SSH = "the management of ssh keys"
    SWITCH = "Open vSwitch"
    POWER = "out-of-band power control"


_REFUSED: Final[Mapping[MissingNeed, str]] = {
    MissingNeed.HYPERVISOR: """
        node_powercycle hypervisor_validate_params
        instance_start instance_shutdown instance_reboot instance_balloon_memory
        instance_migratable migration_info accept_instance instance_migrate instance_finalize_migration_dst
        instance_finalize_migration_src instance_get_migration_status instance_metadata_modify
        hotplug_device hotplug_supported
    """,
    MissingNeed.STORAGE: """
        node_volumes lv_list vg_list drbd_helper extstorage_diagnose
        file_storage_dir_create file_storage_dir_remove file_storage_dir_rename
        storage_list storage_modify storage_execute resize_disk bdev_sizes
        blockdev_create blockdev_convert blockdev_image blockdev_wipe blockdev_remove blockdev_rename
        blockdev_assemble blockdev_shutdown blockdev_addchildren blockdev_removechildren blockdev_open blockdev_close
        blockdev_find blockdev_getmirrorstatus blockdev_getmirrorstatus_multi blockdev_getdimensions blockdev_grow
        blockdev_snapshot blockdev_setinfo blockdev_pause_resume_sync
        drbd_disconnect_net drbd_attach_net drbd_wait_sync drbd_needs_activation
    """,
    MissingNeed.SYSTEMS: "os_diagnose os_validate os_export instance_os_add instance_run_rename",
    MissingNeed.TRANSFERS: """
        x509_cert_create x509_cert_remove import_start export_start impexp_status impexp_abort impexp_cleanup
        export_info export_remove finalize_export
    """,
    MissingNeed.ALLOCATOR: "iallocator_runner",
    MissingNeed.SSH: "node_ssh_key_add node_ssh_key_remove node_ssh_keys_renew",
    MissingNeed.SWITCH: "node_configure_ovs",
    MissingNeed.POWER: "run_oob",
}

# name of a procedure -> what it would need
REFUSED: Final[Mapping[str, MissingNeed]] = {name: need for need, names in _REFUSED.items() for name in names.split()}


def call_classes() -> Sequence[type[AnyCall]]:
    """The classes of all other procedures, sorted by name."""
    return [kind for kind in requests_of(protocol.noded) if issubclass(kind, NodeCall)]


def why_refused(name: str) -> str:
    """The text with which a node daemon refuses a procedure that needs what it has not.

    Raises: NotFound: there is no such procedure.
    """
    need = REFUSED.get(name)
    if need is None:
        raise NotFound(f"there is no procedure '{name}'")
    return f"'{name}' needs {need.value}, which this node daemon does not have"
