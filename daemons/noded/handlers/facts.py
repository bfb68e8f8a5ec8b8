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
from daemons.noded.handlers.stores import Stores
from protocol.noded.facts import (
    BridgesExist,
    ExportList,
    HypervisorFacts,
    NodeFacts,
    NodeHasIpAddress,
    NodeInfo,
)
from protocol.noded.membership import Version

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MEMORY: Final = Path("/proc/meminfo")
NETWORK: Final = Path("/sys/class/net")
_PROCESSORS: Final = Path("/proc/cpuinfo")
_NUMA_NODES: Final = Path("/sys/devices/system/node")
_SOCKET: Final = re.compile(r"^physical id\s*: (\d+)$", re.MULTILINE)
_LINE: Final = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)


class FactsHandlers:
    """What a node tells of itself."""

    def __init__(self) -> None:
        self._stores = Stores()

    async def version(self, _: Version) -> int:
        return CONFIG_VERSION

    async def node_info(self, call: NodeInfo) -> NodeFacts:
        """Raises: Unavailable: a store of another type. OSError: a fact cannot be read."""
        boot_id, hypervisor = await in_thread(_boot_id), await in_thread(hypervisor_facts)
        units = call.storage_units
        return NodeFacts(
            boot_id=boot_id,
            storage=None if units is None else tuple([await self._stores.space(unit) for unit in units]),
            hypervisors=None if call.hv_specs is None else (hypervisor,) * len(call.hv_specs),
        )

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


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()


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
        cpu_nodes=len(list(_NUMA_NODES.glob("node[0-9]*"))) or 1,
        cpu_sockets=count_sockets(_PROCESSORS.read_text()),
    )


def read_memory(text: str) -> Mapping[str, int]:
    """The values in the text of /proc/meminfo, in KiB."""
    return {name: int(value) for name, value in _LINE.findall(text)}


def count_sockets(text: str) -> int:
    """The number of sockets in the text of /proc/cpuinfo; kernels that do not tell have one."""
    return len(set(_SOCKET.findall(text))) or 1


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
