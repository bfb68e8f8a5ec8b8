"""The disks of instances: adding, attaching, detaching, deleting. Pure; results as in `core.instances`.

An instance lists its disks in order, and each disk is called by its place: disk/0, disk/1, ...

Source: wconfd.md 2.3.
"""

import attrs

from common.errors import InvalidRequest, ProgrammerError, ReservationError
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.kinds import DiskUuid, InstanceUuid
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import (
    check_presence,
    disk_of,
    instance_of,
    touched,
    with_cluster_touched,
    with_entry,
    without_entry,
)


def add_disk(config: Config, instance: str, disk: AnyDisk, index: int | None, now: float, *, replace: bool) -> Config:
    """Add a disk, or put it in the place of the one with its uuid, and attach it. Counts as two changes.

    Raises: ConfigurationError: no such instance, or the uuid is taken, or not there to replace.
        InvalidRequest, ReservationError: as `attach_disk`.
    """
    check_presence(config, disk.uuid, is_wanted=replace)
    added = with_entry(config, "disks", disk.uuid, disk)
    # the change counts even if the disk is stored just so
    added = attrs.evolve(added, serial_no=config.serial_no + 1, mtime=now)
    return attach_disk(added, instance, disk.uuid, index, now)


def attach_disk(config: Config, instance: str, disk: str, index: int | None, now: float) -> Config:
    """Give a disk to an instance, at this place; None: as the last one.

    Raises: ConfigurationError: no such instance or disk.
        InvalidRequest: there is no such place.
        ReservationError: an instance has the disk.
    """
    before = instance_of(config, instance)
    uuid = DiskUuid(disk_of(config, disk).uuid)
    count = len(before.disks)
    at = count if index is None else index
    if not 0 <= at <= count:
        raise InvalidRequest(
            f"instance '{before.name}' has {count} disks; the place of another is 0 to {count}, not {at}"
        )
    if (other := _attached_to(config, disk)) is not None:
        raise ReservationError(f"disk '{disk}' is attached to instance '{other}'; detach it first")
    after = attrs.evolve(before, disks=(*before.disks[:at], uuid, *before.disks[at:]))
    after = touched(after, now)
    return advanced(config, _renumbered(with_entry(config, "instances", instance, after), instance, at), now)


def detach_disk(config: Config, instance: str, disk: str, now: float) -> Config:
    """Take a disk from an instance; nothing if the instance does not have it. It keeps the name it had there.

    Raises: ConfigurationError: no such instance.
    """
    return advanced(config, _detached(config, instance, disk, now), now)


def remove_disk(config: Config, instance: str, disk: str, now: float) -> Config:
    """Take a disk from an instance, and delete it; nothing if neither is to be done.

    Raises: ConfigurationError: no such instance.
        ProgrammerError: another instance has the disk.
    """
    after = _detached(config, instance, disk, now)
    if (other := _attached_to(after, disk)) is not None:
        raise ProgrammerError(f"disk '{disk}' is attached to instance '{other}' as well; detach it there first")
    if disk in after.disks:
        after = with_cluster_touched(without_entry(after, "disks", disk), now)
    return advanced(config, after, now)


def _detached(config: Config, instance: str, disk: str, now: float) -> Config:
    before = instance_of(config, instance)
    if disk not in before.disks:
        return config
    at = before.disks.index(DiskUuid(disk))
    after = touched(attrs.evolve(before, disks=before.disks[:at] + before.disks[at + 1 :]), now)
    return _renumbered(with_entry(config, "instances", instance, after), instance, at)


def _attached_to(config: Config, disk: str) -> str | None:
    """The name of the instance that has the disk."""
    return next((one.name or uuid for uuid, one in config.instances.items() if disk in one.disks), None)


def _renumbered(config: Config, instance: str, start: int) -> Config:
    """With the names of the instance's disks after their places, from this place on."""
    disks = config.instances[InstanceUuid(instance)].disks
    renamed = {
        uuid: attrs.evolve(config.disks[uuid], iv_name=f"disk/{place}")
        for place, uuid in enumerate(disks[start:], start)
        if uuid in config.disks
    }
    return attrs.evolve(config, disks={**config.disks, **renamed})
