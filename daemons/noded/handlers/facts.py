"""Facts of this node: version, memory, processors, space, addresses, bridges.

Source: noded.md 6.
"""

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.errors import InvalidRequest, Unavailable
from common.objects.config import CONFIG_VERSION
from common.system.inthread import in_thread
from protocol.noded.facts import (
    BridgesExist,
    ExportList,
    HypervisorFacts,
    NodeFacts,
    NodeHasIpAddress,
    NodeInfo,
    StorageSpace,
    StorageUnit,
)
from protocol.noded.membership import Version

_MEBIBYTE: Final = 2**20
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MEMORY: Final = Path("/proc/meminfo")
NETWORK: Final = Path("/sys/class/net")
_LINE: Final = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)
_FILE_STORAGE: Final = "file"


class FactsHandlers:
    """What a node tells of itself."""

    async def version(self, _: Version) -> int:
        return CONFIG_VERSION

    async def node_info(self, call: NodeInfo) -> NodeFacts:
        """Raises: Unavailable: a store of another type. OSError: a fact cannot be read."""
        return await in_thread(_facts, call)

    async def has_ip_address(self, call: NodeHasIpAddress) -> bool:
        """Raises: InvalidRequest: no address."""
        return _is_own(call.address)

    async def bridges_exist(self, call: BridgesExist) -> None:
        """Raises: Unavailable: a bridge is missing."""
        missing = [name for name in call.bridges_list if "/" in name or not (NETWORK / name / "bridge").is_dir()]
        if missing:
            raise Unavailable(f"bridges missing on this node: {', '.join(missing)}")

    async def export_list(self, _: ExportList) -> tuple[str, ...]:
        # nothing is exported here
        return ()


def _facts(call: NodeInfo) -> NodeFacts:
    return NodeFacts(
        boot_id=_BOOT_ID.read_text().strip(),
        storage=None if call.storage_units is None else tuple(map(_space, call.storage_units)),
        hypervisors=None if call.hv_specs is None else tuple(hypervisor_facts() for _ in call.hv_specs),
    )


def _space(unit: StorageUnit) -> StorageSpace:
    if unit.type != _FILE_STORAGE:
        raise Unavailable(
            f"the space of '{unit.type}' storage needs a storage backend, which this node daemon does not have"
        )
    room = os.statvfs(unit.key)
    free, size = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    return StorageSpace(unit.type, unit.key, free // _MEBIBYTE, size // _MEBIBYTE)


def hypervisor_facts() -> HypervisorFacts:
    """Memory and processors of the machine, all of it the node's own. Raises: OSError."""
    memory = read_memory(_MEMORY.read_text())
    total, free = memory["MemTotal"] // 1024, memory["MemAvailable"] // 1024
    processors = os.cpu_count() or 1
    return HypervisorFacts(
        memory_total=total,
        memory_dom0=total - free,
        memory_free=free,
        cpu_total=processors,
        cpu_dom0=processors,
        cpu_nodes=1,
        cpu_sockets=1,
    )


def read_memory(text: str) -> Mapping[str, int]:
    """The values in the text of /proc/meminfo, in KiB."""
    return {name: int(value) for name, value in _LINE.findall(text)}


def _is_own(address: str) -> bool:
    """Whether an address is one of this machine: then, and only then, a socket can be bound to it."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
    except (socket.gaierror, UnicodeError):
        raise InvalidRequest(f"'{address}' is not an IP address") from None
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.bind(place)
        except OSError:
            return False
    return True
