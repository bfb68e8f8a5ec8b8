"""Finding objects in a configuration, and making another one with some of them changed.

Source: wconfd.md 2.3.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import attrs

from common.errors import ConfigurationError, Conflict, InvalidRequest, NotFound
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.instance import AnyInstance
from common.objects.kinds import DiskTemplate, DiskUuid, InstanceUuid
from daemons.wconfd.core.reservations.minors import nested

V = TypeVar("V")

CLUSTER: Final = "cluster"
# kind of object -> table of the configuration
TABLES: Final[Mapping[str, str]] = {
    "node": "nodes",
    "nodegroup": "nodegroups",
    "instance": "instances",
    "network": "networks",
    "disk": "disks",
    "filter": "filters",
}


def instance_of(config: Config, uuid: str) -> AnyInstance:
    """Raises: ConfigurationError: there is no such instance."""
    try:
        return config.instances[InstanceUuid(uuid)]
    except KeyError:
        raise ConfigurationError(f"there is no instance with the uuid '{uuid[:80]}'", uuid=uuid[:80]) from None


def disk_of(config: Config, uuid: str) -> AnyDisk:
    """Raises: ConfigurationError: there is no such disk."""
    try:
        return config.disks[DiskUuid(uuid)]
    except KeyError:
        raise ConfigurationError(f"there is no disk with the uuid '{uuid[:80]}'", uuid=uuid[:80]) from None


def find_key(config: Config, kind: str, name: str) -> tuple[str, str]:
    """The table and the key of an object given by its uuid, or by its name.

    Raises:
        InvalidRequest: no such kind.
        NotFound: no such object.
        Conflict: several have this name; the message has their uuids.
    Cost: O(objects of the kind) by name, O(1) by uuid.
    """
    if kind == CLUSTER:
        return CLUSTER, CLUSTER
    if kind not in TABLES:
        raise InvalidRequest(f"there are no objects of kind {kind[:40]!r}; kinds are {CLUSTER}, {', '.join(TABLES)}")
    table: Mapping[str, object] = getattr(config, TABLES[kind])
    if name in table:
        return TABLES[kind], name
    found = [uuid for uuid, value in table.items() if getattr(value, "name", None) == name]
    if len(found) > 1:
        raise Conflict(f"several objects of kind {kind} are called '{name}'; give one of the uuids {', '.join(found)}")
    if not found:
        raise NotFound(f"there is no {kind} '{name[:80]}'", kind=kind, id=name[:80])
    return TABLES[kind], found[0]


def known_ids(config: Config) -> set[str]:
    """Every uuid that anything has, and the volumes of disks.

    Cost: O(objects).
    """
    tables = (config.nodes, config.nodegroups, config.instances, config.networks, config.disks)
    ids: set[str] = {value.uuid for table in tables for value in table.values()}
    ids |= {config.cluster.uuid, *config.instances, *config.nodes}
    ids |= {nic.uuid for instance in config.instances.values() for nic in instance.nics}
    for disk in nested(config.disks.values()):
        ids.add(disk.uuid)
        if disk.dev_type is DiskTemplate.PLAIN and disk.logical_id:
            ids.add("/".join(disk.logical_id))
    return ids


def check_presence(config: Config, uuid: str, *, is_wanted: bool) -> None:
    """Raises: ConfigurationError: something has this uuid and should not, or the other way round."""
    if (uuid in known_ids(config)) is not is_wanted:
        what = "there is nothing to replace under" if is_wanted else "something else has already"
        raise ConfigurationError(f"{what} the uuid '{uuid}'", uuid=uuid)


def with_entry(config: Config, table: str, key: str, value: object) -> Config:
    """With this object under this key, in its old place if there was one."""
    return attrs.evolve(config, **{table: {**getattr(config, table), key: value}})  # type: ignore[arg-type]


def without_entry(config: Config, table: str, key: str) -> Config:
    changed = dict(getattr(config, table))
    del changed[key]
    return attrs.evolve(config, **{table: changed})  # type: ignore[arg-type]


def touched(value: V, now: float) -> V:
    """An object that has changed: its serial number grows by one, its mtime is now."""
    return attrs.evolve(value, serial_no=value.serial_no + 1, mtime=now)  # type: ignore[attr-defined, misc]


def with_cluster_touched(config: Config, now: float) -> Config:
    """The set of objects has changed: the cluster counts that."""
    return attrs.evolve(config, cluster=touched(config.cluster, now))
