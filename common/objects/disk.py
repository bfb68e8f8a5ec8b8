"""A disk, or a forthcoming one; disks are nested (a mirror has two children).

Source: wconfd.md 7.3.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from common.objects.entity import Params
from common.objects.kinds import DiskMode, DiskTemplate, NodeUuid
from common.objects.numbers import plain

# value that identifies the disk to its storage; its shape depends on the type
LogicalId = tuple[Any, ...]

_FILE_DRIVERS: Final = ("loop", "blktap", "blktap2")


def _is_pair(value: LogicalId) -> bool:
    return len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_file(value: LogicalId) -> bool:
    return _is_pair(value) and value[0] in _FILE_DRIVERS


def _is_blockdev(value: LogicalId) -> bool:
    return _is_pair(value) and value[0] == "manual"


def _is_drbd(value: LogicalId) -> bool:
    kinds = (str, str, int, int, int, str)
    return len(value) == len(kinds) and all(type(part) is kind for part, kind in zip(value, kinds, strict=True))


_FILE_SHAPE: Final = (_is_file, "[loop|blktap|blktap2, path]")
_SHAPES: Final[Mapping[DiskTemplate, tuple[Callable[[LogicalId], bool], str]]] = {
    DiskTemplate.PLAIN: (_is_pair, "[volume group, volume]"),
    DiskTemplate.DRBD: (_is_drbd, "[node A, node B, port, minor A, minor B, secret]"),
    DiskTemplate.FILE: _FILE_SHAPE,
    DiskTemplate.SHAREDFILE: _FILE_SHAPE,
    DiskTemplate.GLUSTER: _FILE_SHAPE,
    DiskTemplate.BLOCKDEV: (_is_blockdev, "['manual', path]"),
    DiskTemplate.RBD: (_is_pair, "[string, string]"),
    DiskTemplate.EXT: (_is_pair, "[provider, name]"),
}


def _check_logical_id(disk: "Disk | ForthcomingDisk") -> None:
    if disk.dev_type is None or disk.logical_id is None:
        return
    shape = _SHAPES.get(disk.dev_type)
    if shape is None:
        raise ValueError(f"expected a type of disk that has a place, got {disk.dev_type.value!r}")
    fits, form = shape
    if not fits(disk.logical_id):
        raise ValueError(f"expected as logical_id of {disk.dev_type.value} {form}, got {list(disk.logical_id)!r}")


@attrs.frozen(kw_only=True)
class Disk:
    dev_type: DiskTemplate
    logical_id: LogicalId
    children: tuple["AnyDisk", ...] = ()
    nodes: tuple[NodeUuid, ...] = ()
    # name of the disk for the instance: disk/0, disk/1, ...
    iv_name: str = ""
    # MiB
    size: int
    mode: DiskMode = DiskMode.READ_WRITE
    name: str | None = None
    spindles: int | None = None
    params: Params | None = None
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    serial_no: int

    def __attrs_post_init__(self) -> None:
        _check_logical_id(self)


@attrs.frozen(kw_only=True)
class ForthcomingDisk:
    # always true: this key marks a forthcoming disk in the file
    forthcoming: bool = True
    dev_type: DiskTemplate | None = None
    logical_id: LogicalId | None = None
    children: tuple["AnyDisk", ...] = ()
    nodes: tuple[NodeUuid, ...] = ()
    iv_name: str = ""
    size: int | None = None
    mode: DiskMode = DiskMode.READ_WRITE
    name: str | None = None
    spindles: int | None = None
    params: Params | None = None
    ctime: float = attrs.field(default=0, converter=plain)
    mtime: float = attrs.field(default=0, converter=plain)
    uuid: str
    serial_no: int

    def __attrs_post_init__(self) -> None:
        _check_logical_id(self)


AnyDisk = Disk | ForthcomingDisk
attrs.resolve_types(Disk)
attrs.resolve_types(ForthcomingDisk)
