"""What disks have read and written, and the space on the file systems of the installation."""

import os
from pathlib import Path
from typing import ClassVar, Final

import attrs

from daemons.mond.collectors.base import Collector, Found
from daemons.mond.core.exposition import Number
from daemons.mond.core.procfiles import DiskCounters, disk_statistics
from daemons.mond.core.reports import Category, Kind, Status, StatusCode, worst

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

    def collect(self) -> Found:
        disks = disk_statistics(_DISKSTATS.read_text())
        numbers = [_sectors(disk, name, key) for disk in disks for name, key in _PARTS]
        return Found([disk.to_wire() for disk in disks], numbers)


def _sectors(disk: DiskCounters, name: str, key: str) -> Number:
    value, labels = disk.counts[key] * _SECTOR_BYTES, {"device": disk.name}
    return Number(f"gantry_node_disk_{name}_bytes_total", value, labels, f"Bytes {name} by the device", "counter")


@attrs.frozen
class _Space:
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
    def status(self) -> Status:
        for what, free, size in (("space", self.free, self.size), ("inodes", self.inodes_free, self.inodes)):
            if size and free < _LEAST_FREE * size:
                return Status(StatusCode.BAD, f"{self.folder}: {100 * free / size:.1f} % of the {what} is free")
        return Status(StatusCode.OK)


class DiskSpace(Collector):
    """Free space and inodes where the installation has its folders."""

    NAME: ClassVar[str] = "disk-space"
    CATEGORY: ClassVar[Category | None] = Category.STORAGE
    KIND: ClassVar[Kind] = Kind.STATUS
    INTERVAL_S: ClassVar[float] = 15.0

    def collect(self) -> Found:
        paths = self.settings.paths
        devices: dict[int, Path] = {}
        for folder in (Path("/"), paths.data, paths.run, paths.log):
            devices.setdefault(os.stat(folder).st_dev, folder)
        spaces = [_space(folder) for folder in devices.values()]
        data = {"filesystems": [attrs.asdict(each) for each in spaces]}
        return Found(
            data, [number for each in spaces for number in _sizes(each)], worst(each.status for each in spaces)
        )


def _space(folder: Path) -> _Space:
    found = os.statvfs(folder)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return _Space(str(folder), size, free, found.f_files, found.f_favail)


def _sizes(space: _Space) -> tuple[Number, Number]:
    labels = {"folder": space.folder}
    return (
        Number("gantry_node_filesystem_size_bytes", space.size, labels, "Bytes of the file system"),
        Number("gantry_node_filesystem_free_bytes", space.free, labels, "Bytes of the file system that are free"),
    )
