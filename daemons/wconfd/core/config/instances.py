"""Adding, deleting and setting instances: pure functions of the configuration.

All return the configuration with its own serial number and time raised, or the very same one if nothing changed.
`now` is in seconds since the epoch.

Source: wconfd.md 2.3 and 11.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from common.errors import ConfigurationError, InvalidRequest, ProgrammerError, ReservationError
from common.objects.config import AnyDisk, AnyInstance, Config
from common.objects.kinds import AdminState, AdminStateSource, DiskUuid, InstanceUuid, NodeUuid
from daemons.wconfd.core.config.configstate import (
    advanced,
    check_presence,
    disk_of,
    instance_of,
    touched,
    with_cluster_touched,
    with_entry,
    without_entry,
)
from daemons.wconfd.core.reservations import IpAction, IpNote, with_notes

# TCP and UDP ports for instances: those given back first, then the next one.
#
# Source: wconfd.md 2.3.


LAST_PORT: Final = 14999


def allocate_port(config: Config, now: float) -> tuple[Config, int]:
    """Raises: ConfigurationError: all are in use."""
    cluster = config.cluster
    if cluster.tcpudp_port_pool:
        port, *rest = cluster.tcpudp_port_pool
        after = attrs.evolve(cluster, tcpudp_port_pool=tuple(rest))
    elif cluster.highest_used_port >= LAST_PORT:
        raise ConfigurationError(
            f"no port is free: the highest used one is {cluster.highest_used_port}, the last possible one {LAST_PORT}; "
            "give ports back with addTcpUdpPort"
        )
    else:
        port = cluster.highest_used_port + 1
        after = attrs.evolve(cluster, highest_used_port=port)
    return advanced(config, attrs.evolve(config, cluster=after), now), port


def add_port(config: Config, port: int, now: float) -> Config:
    """Give a port back: it is the next to be taken."""
    return advanced(config, with_free_port(config, port), now)


def with_free_port(config: Config, port: int) -> Config:
    """With the port in front of the pool, once."""
    pool = (port, *(other for other in config.cluster.tcpudp_port_pool if other != port))
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, tcpudp_port_pool=pool))


def add_instance(config: Config, given: AnyInstance, notes: Iterable[IpNote], now: float, *, replace: bool) -> Config:
    """Add an instance, or put it in the place of the one with its uuid, and carry out notes on addresses.

    Raises:
        ConfigurationError: another instance has one of its MACs, or its uuid is taken, or not there to replace.
        ReservationError: a note cannot be carried out.
    """
    _check_macs(config, given)
    check_presence(config, given.uuid, is_wanted=replace)
    after = with_entry(config, "instances", given.uuid, attrs.evolve(given, ctime=now, mtime=now))
    return advanced(config, with_notes(after, notes), now)


def remove_instance(config: Config, uuid: str, now: float) -> Config:
    """Delete an instance, and free its port and addresses; nothing if there is none. Its disks stay.

    Raises: ReservationError: one of its addresses is not marked as taken.
    """
    instance = config.instances.get(InstanceUuid(uuid))
    if instance is None:
        return config
    after = without_entry(config, "instances", uuid)
    after = with_notes(
        after, (IpNote(IpAction.RELEASE, nic.network, nic.ip) for nic in instance.nics if nic.network and nic.ip)
    )
    if instance.network_port is not None:
        after = with_free_port(after, instance.network_port)
    return advanced(config, with_cluster_touched(after, now), now)


def set_instance_status(
    config: Config,
    uuid: str,
    admin_state: AdminState | None,
    disks_active: bool | None,
    admin_state_source: AdminStateSource | None,
    now: float,
) -> tuple[Config, AnyInstance]:
    """Set what is not None; returns the instance.

    Raises: ConfigurationError: there is no such instance.
    """
    before = instance_of(config, uuid)
    wanted = {"admin_state": admin_state, "disks_active": disks_active, "admin_state_source": admin_state_source}
    after: AnyInstance = attrs.evolve(before, **{name: value for name, value in wanted.items() if value is not None})  # type: ignore[arg-type]
    if after == before:
        return config, before
    after = touched(after, now)
    return advanced(config, with_entry(config, "instances", uuid, after), now), after


def set_primary_node(config: Config, uuid: str, node: str, now: float) -> Config:
    """Say where an instance runs. Neither is the node looked up nor does the instance's serial number grow.

    Raises: ConfigurationError: there is no such instance.
    """
    instance = attrs.evolve(instance_of(config, uuid), primary_node=NodeUuid(node))
    return advanced(config, with_entry(config, "instances", uuid, instance), now)


def _check_macs(config: Config, given: AnyInstance) -> None:
    own = {nic.mac.lower() for nic in given.nics}
    for uuid, other in config.instances.items():
        if uuid != given.uuid and (common := own.intersection(nic.mac.lower() for nic in other.nics)):
            raise ConfigurationError(
                f"instance '{given.name}' cannot be added: instance '{other.name}' has its MAC {min(common)}"
            )


# The disks of instances: adding, attaching, detaching, deleting. Pure; results as in `core.config.instances`.
#
# An instance lists its disks in order, and each disk is called by its place: disk/0, disk/1, ...
#
# Source: wconfd.md 2.3.


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
