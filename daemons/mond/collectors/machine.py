"""Facts of the machine, its load and its memory."""

import os
import time
from pathlib import Path
from typing import ClassVar, Final

import attrs

from common.settings import Settings
from common.system.processes import boot_id
from common.system.program import release
from daemons.mond.collectors.base import Collector, Measured
from daemons.mond.core.procfiles import DiskCounters, Window, busy_ticks, disk_statistics, load_average, memory_bytes
from daemons.mond.core.reports import Category, CollectorStatus, Number, ReportKind, StatusCode, worst

_LOAD: Final = Path("/proc/loadavg")
_MEMORY: Final = Path("/proc/meminfo")
_MINUTES: Final = (1, 5, 15)
# our name -> the kernel's
_MEMORY_PARTS: Final = {
    "total": "MemTotal",
    "free": "MemFree",
    "available": "MemAvailable",
    "buffers": "Buffers",
    "cached": "Cached",
    "swap_total": "SwapTotal",
    "swap_free": "SwapFree",
}


class NodeFactsCollector(Collector):
    """What seldom changes."""

    NAME: ClassVar[str] = "node-facts"
    INTERVAL_S: ClassVar[float] = 60.0

    def collect(self) -> Measured:
        system, node, own = os.uname(), self.settings.cluster.own_name, release()
        uptime_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        labels = {"node": node, "kernel": system.release, "gantry": own}
        data = {
            "node": node,
            "host": system.nodename,
            "kernel": system.release,
            "machine": system.machine,
            "cpus": os.cpu_count(),
            "boot_id": boot_id(),
            "uptime_s": uptime_s,
            "gantry": own,
        }
        uptime = Number("gantry_node_uptime_seconds", uptime_s, help="Seconds since the machine was started")
        return Measured(data, (Number("gantry_node_info", 1, labels, "Facts of the node"), uptime))


class LoadCollector(Collector):
    """Processes that run or wait, on average."""

    NAME: ClassVar[str] = "load"

    def collect(self) -> Measured:
        load = load_average(_LOAD.read_text())
        averages = {f"load{minutes}": value for minutes, value in zip(_MINUTES, load.minutes, strict=True)}
        numbers = [Number(f"gantry_node_{name}", value, help="Load average") for name, value in averages.items()]
        return Measured({**averages, "runnable": load.runnable, "processes": load.processes}, numbers)


class MemoryCollector(Collector):
    """Memory in bytes."""

    NAME: ClassVar[str] = "memory"

    def collect(self) -> Measured:
        found = memory_bytes(_MEMORY.read_text())
        parts = {own: found[name] for own, name in _MEMORY_PARTS.items() if name in found}
        text = "Memory of the node"
        return Measured(
            parts, [Number("gantry_node_memory_bytes", parts[name], {"part": name}, text) for name in parts]
        )


# How busy the processors were in the last ten minutes, as Ganeti's hbal reads it.


WINDOW_S: Final = 600.0
_STAT: Final = Path("/proc/stat")


class ProcessorLoad(Collector):
    """Processors in use, on average: all together, and each."""

    NAME: ClassVar[str] = "cpu-avg-load"
    VERSION: ClassVar[str] = "B"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._window = Window(WINDOW_S)
        self._ticks = os.sysconf("SC_CLK_TCK")

    def collect(self) -> Measured:
        self._window.add(time.monotonic(), busy_ticks(_STAT.read_text()))
        rates = self._window.rates()
        if rates is None:
            return Measured({"error": "there are too few samples yet"})
        total, *each = (rate / self._ticks for rate in rates)
        numbers = (
            Number("gantry_node_cpu_load", total, help="Processors in use, on average of the last ten minutes"),
            Number("gantry_node_cpus", len(each), help="Processors of the node"),
        )
        return Measured({"cpu_number": len(each), "cpus": each, "cpu_total": total}, numbers)


# What disks have read and written, and the space on the file systems of the installation.


_DISKSTATS: Final = Path("/proc/diskstats")
_SECTOR_BYTES: Final = 512
# our name and Ganeti's of a count
_PARTS: Final = (("read", "secRead"), ("written", "secWritten"))
# part of space or inodes below which a person must act
_LEAST_FREE: Final = 0.05


class DiskStatistics(Collector):
    """The counters of all block devices."""

    NAME: ClassVar[str] = "diskstats"
    CATEGORY: ClassVar[Category | None] = Category.STORAGE
    VERSION: ClassVar[str] = "B"

    def collect(self) -> Measured:
        disks = disk_statistics(_DISKSTATS.read_text())
        numbers = [_sectors(disk, name, key) for disk in disks for name, key in _PARTS]
        return Measured([disk.to_wire() for disk in disks], numbers)


def _sectors(disk: DiskCounters, name: str, key: str) -> Number:
    value, labels = disk.counts[key] * _SECTOR_BYTES, {"device": disk.name}
    return Number(f"gantry_node_disk_{name}_bytes_total", value, labels, f"Bytes {name} by the device", "counter")


@attrs.frozen
class _FileSystem:
    """A file system."""

    # one of our folders on it
    folder: str
    # bytes
    size: int
    free: int
    # 0: this one does not count them
    inodes: int
    inodes_free: int

    @property
    def status(self) -> CollectorStatus:
        for what, free, size in (("space", self.free, self.size), ("inodes", self.inodes_free, self.inodes)):
            if size and free < _LEAST_FREE * size:
                return CollectorStatus(
                    StatusCode.BAD, f"{self.folder}: {100 * free / size:.1f} % of the {what} is free"
                )
        return CollectorStatus(StatusCode.OK)


class DiskSpace(Collector):
    """Free space and inodes where the installation has its folders."""

    NAME: ClassVar[str] = "disk-space"
    CATEGORY: ClassVar[Category | None] = Category.STORAGE
    KIND: ClassVar[ReportKind] = ReportKind.STATUS
    INTERVAL_S: ClassVar[float] = 15.0

    def collect(self) -> Measured:
        paths = self.settings.paths
        devices: dict[int, Path] = {}
        for folder in (Path("/"), paths.data, paths.run, paths.log):
            devices.setdefault(os.stat(folder).st_dev, folder)
        spaces = [_space(folder) for folder in devices.values()]
        data = {"filesystems": [attrs.asdict(each) for each in spaces]}
        return Measured(
            data, [number for each in spaces for number in _sizes(each)], worst(each.status for each in spaces)
        )


def _space(folder: Path) -> _FileSystem:
    found = os.statvfs(folder)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return _FileSystem(str(folder), size, free, found.f_files, found.f_favail)


def _sizes(space: _FileSystem) -> tuple[Number, Number]:
    labels = {"folder": space.folder}
    return (
        Number("gantry_node_filesystem_size_bytes", space.size, labels, "Bytes of the file system"),
        Number("gantry_node_filesystem_free_bytes", space.free, labels, "Bytes of the file system that are free"),
    )
