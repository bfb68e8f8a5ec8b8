"""The disks of an instance as fields of it: all together, and one by one.

Source: luxid.md 7.6, "instance".
"""

from collections.abc import Callable, Iterable
from typing import Final

from common.objects.disk import AnyDisk
from common.objects.instance import AnyInstance
from common.objects.kinds import DiskTemplate
from daemons.luxid.core.query.fields import Kind, QueryField, Status, or_unavailable
from daemons.luxid.core.query.rows import Row

_Row = Row[AnyInstance]
_Field = QueryField[_Row]

_DISKS: Final = 16
# MiB that a mirrored disk needs beside its data
_MIRROR_META: Final = 128
# their storage is the cluster's own
_CHARGED: Final = frozenset(
    {DiskTemplate.PLAIN, DiskTemplate.FILE, DiskTemplate.SHAREDFILE, DiskTemplate.GLUSTER, DiskTemplate.DRBD}
)

# name, title of one, title of all, kind of one, attribute, what it is
_ASPECTS: Final = (
    ("size", "Disk", "Disk_sizes", Kind.UNIT, "size", "size"),
    ("spindles", "DiskSpindles", "Disk_spindles", Kind.NUMBER, "spindles", "spindles"),
    ("name", "DiskName", "Disk_names", Kind.TEXT, "name", "name"),
    ("uuid", "DiskUUID", "Disk_UUIDs", Kind.TEXT, "uuid", "UUID"),
)


def disk_fields() -> Iterable[_Field]:
    """The fields about disks."""
    yield _Field("disk_template", "Disk_template", Kind.TEXT, "how its disks are stored", _template)
    yield _Field("disk_usage", "DiskUsage", Kind.UNIT, "storage that its disks take", _usage)
    yield _Field("disk.count", "Disks", Kind.NUMBER, "number of disks", lambda row: len(row.object.disks))
    for name, one, every, kind, attribute, doc in _ASPECTS:
        plural = name if name.endswith("s") else f"{name}s"
        yield _Field(f"disk.{plural}", every, Kind.OTHER, f"{doc} of each disk", _of_each(attribute))
        for index in range(_DISKS):
            yield _Field(
                f"disk.{name}/{index}", f"{one}/{index}", kind, f"{doc} of disk {index}", _of_one(attribute, index)
            )
    for index, old in enumerate(("sda_size", "sdb_size")):
        yield _Field(
            old, f"Disk/{index}", Kind.UNIT, f"size of disk {index}, under its old name", _of_one("size", index)
        )


def _of_each(attribute: str) -> Callable[[_Row], object]:
    return lambda row: [getattr(disk, attribute) for disk in row.config.disks(row.object)]


def _of_one(attribute: str, index: int) -> Callable[[_Row], object]:
    def read(row: _Row) -> object:
        disks = row.config.disks(row.object)
        return or_unavailable(getattr(disks[index], attribute)) if index < len(disks) else Status.UNAVAILABLE

    return read


def _template(row: _Row) -> str:
    templates = {disk.dev_type for disk in row.config.disks(row.object) if disk.dev_type is not None}
    if not templates:
        return DiskTemplate.DISKLESS.value
    return templates.pop().value if len(templates) == 1 else "mixed"


def _usage(row: _Row) -> int:
    return sum(_disk_usage(disk) for disk in row.config.disks(row.object))


def _disk_usage(disk: AnyDisk) -> int:
    if disk.size is None or disk.dev_type not in _CHARGED:
        return 0
    return disk.size + (_MIRROR_META if disk.dev_type is DiskTemplate.DRBD else 0)
