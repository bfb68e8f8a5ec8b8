"""Facts of this node: version, memory, processors, space, addresses, bridges.

Source: noded.md 6.
"""

import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from common.errors import InvalidRequest, Unavailable, explain_os_error
from common.objects.config import CONFIG_VERSION
from common.shapes import JsonObject
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processes import boot_id
from protocol.noded.facts import (
    AllInstancesInfo,
    BridgesExist,
    ExportList,
    FoundInstance,
    HypervisorFacts,
    InstanceConsoleInfo,
    InstanceFacts,
    InstanceInfo,
    InstanceList,
    NodeFacts,
    NodeHasIpAddress,
    NodeInfo,
    StorageSpace,
    StorageUnit,
)
from protocol.noded.membership import NodeVersion

# The space of this node's stores: folders, volume groups of LVM, and their physical volumes.
#
# Theory. What is not known is null, as with Ganeti: a volume group that is missing, or a machine without LVM, must not
# cost the caller the other facts of the node. The reason is in the log, once.
#
# Source: noded.md 6, "node_info".


_MEBIBYTE: Final = 2**20
# of a program of LVM: it waits for disks, and for other such programs
_LIMIT_S: Final = 30.0
_OPTIONS: Final = ("--noheadings", "--nosuffix", "--units", "m", "--separator", "|")
_GROUP_NAME: Final = re.compile(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]*")
_SYSTEM_FOLDERS: Final = "/usr/sbin:/sbin"
_log: Final = get_log(__name__)


class _Unknown(Exception):
    """The space of a store cannot be had; the text says why."""


@attrs.frozen
class _FreeSpace:
    free: int | None
    size: int | None


class Stores:
    """Tells the space of stores."""

    def __init__(self) -> None:
        # type and name of a store -> why its space is not known
        self._told: dict[tuple[str, str], str] = {}

    async def space(self, unit: StorageUnit) -> StorageSpace:
        """The space of one store, in MiB; null where it is not known. Raises: Unavailable: a store of another type."""
        try:
            found = await self._space(unit)
        except _Unknown as error:
            self._tell(unit, str(error))
            found = _FreeSpace(None, None)
        else:
            self._told.pop((unit.type, unit.key), None)
        return StorageSpace(unit.type, unit.key, found.free, found.size)

    async def _space(self, unit: StorageUnit) -> _FreeSpace:
        is_exclusive = unit.params[:1] == (True,)
        match unit.type:
            case "file":
                return await in_thread(_folder, unit.key)
            case "lvm-vg":
                return _in_empty_volumes(await _volumes(unit.key)) if is_exclusive else await _group(unit.key)
            case "lvm-pv":
                return _spindles(await _volumes(unit.key)) if is_exclusive else _FreeSpace(0, 0)
            case _:
                raise Unavailable(
                    f"the space of '{unit.type}' storage needs a storage backend, which this node daemon does not have"
                )

    def _tell(self, unit: StorageUnit, reason: str) -> None:
        place = (unit.type, unit.key)
        if self._told.get(place) != reason:
            self._told[place] = reason
            _log.warning("store.unknown", type=unit.type, store=unit.key, reason=reason, effect="its space is null")


def _folder(path: str) -> _FreeSpace:
    try:
        room = os.statvfs(path)
    except OSError as error:
        raise _Unknown(explain_os_error(error)) from error
    return _FreeSpace(room.f_bavail * room.f_frsize // _MEBIBYTE, room.f_blocks * room.f_frsize // _MEBIBYTE)


@attrs.frozen
class _PhysicalVolume:
    """One disk of a volume group, in MiB."""

    free: float
    size: float

    @property
    def is_empty(self) -> bool:
        return self.free >= self.size


async def _group(name: str) -> _FreeSpace:
    match await _ask_lvm("vgs", "vg_free,vg_size", name):
        case [(free, size)]:
            return _FreeSpace(round(free), round(size))
        case rows:
            raise _Unknown(f"LVM tells of {len(rows)} volume groups '{name}'")


async def _volumes(group: str) -> Sequence[_PhysicalVolume]:
    rows = await _ask_lvm("pvs", "pv_free,pv_size", group)
    if not rows:
        raise _Unknown(f"LVM tells of no physical volumes of '{group}'")
    return [_PhysicalVolume(free, size) for free, size in rows]


def _in_empty_volumes(volumes: Sequence[_PhysicalVolume]) -> _FreeSpace:
    """With exclusive storage, disks that are used in part are not free."""
    free, size = sum(each.free for each in volumes if each.is_empty), sum(each.size for each in volumes)
    return _FreeSpace(round(free), round(size))


def _spindles(volumes: Sequence[_PhysicalVolume]) -> _FreeSpace:
    return _FreeSpace(sum(each.is_empty for each in volumes), len(volumes))


async def _ask_lvm(program: str, columns: str, group: str) -> Sequence[tuple[float, float]]:
    """The rows that a program of LVM prints of this volume group. Raises: _Unknown."""
    if not _GROUP_NAME.fullmatch(group):
        raise _Unknown("this is no name of a volume group")
    command = [program, *_OPTIONS, "-o", columns, "--select", f"vg_name={group}"]
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}"}
    try:
        with trio.fail_after(_LIMIT_S):
            done = await trio.run_process(
                command, capture_stdout=True, capture_stderr=True, check=False, env=environment
            )
    except trio.TooSlowError:
        raise _Unknown(f"{program} has not ended within {_LIMIT_S:g} s") from None
    except OSError as error:
        raise _Unknown(explain_os_error(error)) from error
    return _read(program, done)


def _read(program: str, done: subprocess.CompletedProcess[bytes]) -> Sequence[tuple[float, float]]:
    """The two numbers of each row that a program of LVM has printed.

    Raises: _Unknown: it failed, or printed other things.
    """
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        error = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise _Unknown(f"{program} failed: {error or done.returncode}")
    try:
        rows = [line.split("|") for line in text.splitlines() if line.strip()]
        return [(float(free), float(size)) for free, size in rows]
    except ValueError:
        raise _Unknown(f"{program} printed something else: {text[:60]!r}") from None


_MEMORY: Final = Path("/proc/meminfo")
_NETWORK: Final = Path("/sys/class/net")
_PROCESSORS: Final = Path("/proc/cpuinfo")
_NUMA_NODES: Final = Path("/sys/devices/system/node")
_SOCKET: Final = re.compile(r"^physical id\s*: (\d+)$", re.MULTILINE)
_LINE: Final = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)


class FactsHandlers:
    """What a node tells of itself."""

    def __init__(self) -> None:
        self._stores = Stores()

    async def version(self, _: NodeVersion) -> int:
        return CONFIG_VERSION

    async def node_info(self, call: NodeInfo) -> NodeFacts:
        """Raises: Unavailable: a store of another type. OSError: a fact cannot be read."""
        hypervisor = await in_thread(hypervisor_facts)
        units = call.storage_units
        return NodeFacts(
            boot_id=await in_thread(boot_id),
            storage=None if units is None else tuple([await self._stores.space(unit) for unit in units]),
            hypervisors=None if call.hv_specs is None else (hypervisor,) * len(call.hv_specs),
        )

    async def has_ip_address(self, call: NodeHasIpAddress) -> bool:
        """Raises: InvalidRequest: no address."""
        return _is_own(call.address)

    async def bridges_exist(self, call: BridgesExist) -> None:
        """Raises: Unavailable: a bridge is missing."""
        if missing := missing_bridges(call.bridges_list):
            raise Unavailable(f"bridges missing on this node: {', '.join(missing)}")

    async def export_list(self, _: ExportList) -> tuple[str, ...]:
        # nothing is exported here
        return ()

    # there is no hypervisor here, so no instances run: replies by which queries work

    async def all_instances(self, _: AllInstancesInfo) -> Mapping[str, InstanceFacts]:
        return {}

    async def instance_names(self, _: InstanceList) -> tuple[str, ...]:
        return ()

    async def instance_info(self, _: InstanceInfo) -> FoundInstance:
        return FoundInstance(None)

    async def console_info(self, _: InstanceConsoleInfo) -> Mapping[str, JsonObject]:
        return {}


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


def missing_bridges(names: Sequence[str]) -> Sequence[str]:
    return [name for name in names if "/" in name or not (_NETWORK / name / "bridge").is_dir()]


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
