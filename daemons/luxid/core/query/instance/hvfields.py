"""The parameters of hypervisors as fields of instances: one for each that an instance may set.

Source: luxid.md 7.6, "instance", "hv/*".
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from daemons.luxid.core.query.fields import Kind, QueryField, Status

R = TypeVar("R")

# fmt: off
_BOOLS: Final = (
    "acpi", "pae", "serial_console", "spice_playback_compression", "spice_use_tls", "spice_use_vdagent",
    "use_bootloader", "use_chroot", "use_guest_agent", "use_localtime", "user_shutdown", "vhost_net", "viridian",
    "vnc_tls", "vnc_x509_verify", "vnet_hdr",
)
_NUMBERS: Final = (
    "cpu_cap", "cpu_cores", "cpu_sockets", "cpu_threads", "cpu_weight", "kvm_pci_reservations",
    "migration_downtime", "num_ttys", "serial_speed", "spice_ip_version", "startup_timeout", "virtio_net_queues",
)
_OTHERS: Final = (
    "blockdev_prefix", "boot_order", "bootloader_args", "bootloader_path", "cdrom2_image_path", "cdrom_disk_type",
    "cdrom_image_path", "cpu_mask", "cpu_type", "cpuid", "device_model", "devices", "disk_aio", "disk_cache",
    "disk_discard", "disk_type", "drop_capabilities", "extra_cgroups", "extra_config", "floppy_image_path",
    "init_script", "initrd_path", "kernel_args", "kernel_path", "keymap", "kvm_extra", "kvm_flag", "kvm_path",
    "machine_version", "mem_path", "migration_caps", "nic_type", "pci_pass", "reboot_behavior", "root_path",
    "scsi_controller_type", "security_domain", "security_model", "soundhw", "spice_bind", "spice_image_compression",
    "spice_jpeg_wan_compression", "spice_password_file", "spice_streaming_video", "spice_tls_ciphers",
    "spice_zlib_glz_wan_compression", "usb_devices", "usb_mouse", "vga", "vif_script", "vif_type",
    "vnc_bind_address", "vnc_password_file", "vnc_x509_path",
)
# titles that differ from the name
_TITLES: Final = {
    "acpi": "ACPI", "boot_order": "Boot_order", "cdrom_image_path": "CDROM_image_path", "cpu_type": "cpu_type",
    "disk_type": "Disk_type", "initrd_path": "Initrd_path", "kernel_path": "Kernel_path", "nic_type": "NIC_type",
    "pae": "PAE", "pci_pass": "pci_pass", "vnc_bind_address": "VNC_bind_address",
}
# fmt: on

NAMES: Final = tuple(sorted((*_BOOLS, *_NUMBERS, *_OTHERS)))
_KINDS: Final = {
    **dict.fromkeys(_BOOLS, Kind.BOOL),
    **dict.fromkeys(_NUMBERS, Kind.NUMBER),
    **dict.fromkeys(_OTHERS, Kind.OTHER),
}


def hv_fields(params: Callable[[R], Mapping[str, object]]) -> Iterable[QueryField[R]]:
    """A field for each parameter.

    Args:
        params: of an instance all parameters that its hypervisor has.
    """
    return [
        QueryField(
            f"hv/{name}",
            _TITLES.get(name, f"hv/{name}"),
            _KINDS[name],
            f"hypervisor parameter {name!r}; none if the hypervisor does not have it",
            _reader(params, name),
        )
        for name in NAMES
    ]


def _reader(params: Callable[[R], Mapping[str, object]], name: str) -> Callable[[R], object]:
    return lambda row: params(row).get(name, Status.UNAVAILABLE)
