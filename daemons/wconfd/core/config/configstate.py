"""The configuration as wconfd keeps it, and the rules by which writing it counts.

An effective change, one after which the value differs, raises the serial number and sets the time;
anything else changes nothing, so that a call delivered twice counts once.

Source: wconfd.md 2.2, 7.4 and 7.5.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeVar

import attrs
import orjson

from common.errors import ConfigurationError, Conflict, InvalidRequest, NotFound
from common.objects.codec import EncodedConfig, encode_config, to_json
from common.objects.config import AnyDisk, AnyInstance, Config, Network, Node, NodeGroup
from common.objects.kinds import DiskTemplate, DiskUuid, GroupUuid, InstanceUuid, NodeUuid
from daemons.wconfd.core.reservations import nested


@attrs.frozen
class ConfigState:
    """A configuration and its bytes."""

    config: Config
    # bytes of a reply
    encoded: EncodedConfig = attrs.field(repr=False, eq=False)
    # bytes of the file, if another program wrote it: it may order keys otherwise
    _found: bytes | None = attrs.field(default=None, repr=False, eq=False)

    @classmethod
    def of(cls, config: Config, before: "ConfigState | None" = None) -> "ConfigState":
        """Cost: what differs from `before` is encoded."""
        return cls(config, encode_config(config, before.encoded if before else None))

    @classmethod
    def found(cls, config: Config, content: bytes) -> "ConfigState":
        """A configuration that was read. Args: content: of the file."""
        # node daemons need ASCII
        return cls(config, encode_config(config), content if content.isascii() else None)

    @property
    def content(self) -> bytes:
        """The bytes of the file, here and on other nodes."""
        return self.encoded.content if self._found is None else self._found


def advanced(before: Config, after: Config, now: float) -> Config:
    """`after` as a change of `before`: with the serial it has plus one, or `before` itself if nothing differs.

    Args:
        now: seconds since the epoch.
    """
    if after is before or is_same(before, after):
        return before
    return attrs.evolve(after, serial_no=after.serial_no + 1, mtime=now)


def written(before: Config, given: Config, now: float, *, is_change: bool = False) -> Config:
    """What a client's write of the whole configuration leads to; its second delivery leads nowhere.

    Args:
        now: seconds since the epoch.
        is_change: it counts also if the value is the one that it was.
    Raises: ConfigurationError: it was changed since the client has read it.
    """
    if is_same(before, attrs.evolve(given, serial_no=given.serial_no + 1, mtime=before.mtime)):
        return before
    if given.serial_no < before.serial_no:
        raise ConfigurationError(
            f"the configuration was changed since it was read: its serial number is {before.serial_no}, "
            f"not {given.serial_no}; read it again"
        )
    if is_change and is_same(before, given):
        return attrs.evolve(given, serial_no=given.serial_no + 1, mtime=now)
    return advanced(before, given, now)


def lacks_members(value: Mapping[str, object]) -> bool:
    """Whether a node group of a whole configuration comes without its members, as Ganeti's clients send it.

    Ganeti's daemon counts the write of such a value as a change, though it stores the same as before.

    Args:
        value: one that can be read.
    """
    groups = value["nodegroups"]
    return isinstance(groups, dict) and any(group.get("members") is None for group in groups.values())


def reloaded(before: Config, given: Config, now: float) -> Config:
    """Adopt a file that another program has edited, under a serial number that no reader has seen.

    Args:
        now: seconds since the epoch.
    """
    if is_same(before, given):
        return before
    return attrs.evolve(given, serial_no=max(before.serial_no, given.serial_no) + 1, mtime=now)


def is_same(one: Config, other: Config) -> bool:
    """Whether these are the same JSON value; to Python alone, true and 1 are equal."""
    return is_same_object(one, other)


def is_same_object(one: attrs.AttrsInstance, other: attrs.AttrsInstance) -> bool:
    """The same for any object of the configuration."""
    return one == other and _same_json(to_json(one), to_json(other))


def _same_json(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same_json, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def is_urgent(before: Config, after: Config) -> bool:
    """Whether the call that makes this change returns only after the nodes were told of it."""
    return _urgent_values(before) != _urgent_values(after)


def nodes_of_group(config: Config, group: GroupUuid) -> frozenset[NodeUuid]:
    """The nodes of a group; none if there is no such group."""
    return frozenset(uuid for uuid, node in config.nodes.items() if node.group == group)


def _urgent_values(config: Config) -> tuple[object, ...]:
    cluster = config.cluster
    candidates: Mapping[NodeUuid, Node] = {
        uuid: node for uuid, node in config.nodes.items() if node.master_candidate or uuid == cluster.master_node
    }
    return (
        cluster.candidate_certs,
        cluster.master_node,
        cluster.enabled_user_shutdown,
        cluster.enabled_hypervisors,
        candidates,
        {uuid: node.vm_capable for uuid, node in config.nodes.items()},
    )


# Finding objects in a configuration, and making another one with some of them changed.
#
# Source: wconfd.md 2.3.


K = TypeVar("K", bound=str)
V = TypeVar("V")
S = TypeVar("S", Node, NodeGroup, Network)

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


def object_of(table: Mapping[K, V], uuid: K, noun: str) -> V:
    """Args: noun: for the error. Raises: ConfigurationError: there is no such object."""
    try:
        return table[uuid]
    except KeyError:
        raise ConfigurationError(f"there is no {noun} with the uuid '{uuid[:80]}'", uuid=uuid[:80]) from None


def instance_of(config: Config, uuid: str) -> AnyInstance:
    """Raises: ConfigurationError: there is no such instance."""
    return object_of(config.instances, InstanceUuid(uuid), "instance")


def disk_of(config: Config, uuid: str) -> AnyDisk:
    """Raises: ConfigurationError: there is no such disk."""
    return object_of(config.disks, DiskUuid(uuid), "disk")


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


def stored_anew(config: Config, stored: S | None, given: S, noun: str, now: float) -> S:
    """The given object as it is to be stored, in place of the stored one, or as a new one.

    Args: noun: for the error.
    Raises: ConfigurationError: the stored one was changed since it was read; the uuid is taken.
    """
    if stored is None:
        check_presence(config, given.uuid, is_wanted=False)
        return attrs.evolve(given, ctime=now, mtime=now, serial_no=1)
    if stored.serial_no != given.serial_no:
        raise ConfigurationError(
            f"{noun} '{stored.name}' was changed since it was read: its serial number is {stored.serial_no}, "
            f"not {given.serial_no}; read it again",
            uuid=given.uuid,
        )
    return touched(given, now)


def with_cluster_touched(config: Config, now: float) -> Config:
    """The set of objects has changed: the cluster counts that."""
    return attrs.evolve(config, cluster=touched(config.cluster, now))


# Recent updates, to recognise retries. Pure.
#
# Theory. An update says from which state of its object it starts: the serial number is part of what is given. Two
# calls that give the very same object want the same change of the same state, and one of them was made. So the
# second may be answered as the first was, whatever was built upon it since. What has changed since need not show in the
# serial number: a port that is allocated changes the cluster, and leaves it.
#
# Only the newest are kept. A call is sent again within moments, and they shall fit beside the file (`ROOM`).


# serial number and mtime of an object after its change
Stamp = tuple[int, float]

# number of deliveries kept: with their stamps less than 3 KiB, which file systems keep beside a file
ROOM: Final = 40
_DIGEST_BYTES: Final = 12


@attrs.frozen
class Delivery:
    """An update by its content: two that are equal are one call, delivered twice."""

    digest: str

    @classmethod
    def of(cls, value: Mapping[str, object]) -> "Delivery":
        """Args: value: the object as it was given, with its uuid and its serial number."""
        content = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        return cls(hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest())


@attrs.frozen
class Deliveries:
    """A value; start from `Deliveries()`."""

    # deliveries, the oldest first, at most ROOM
    _stamps: tuple[tuple[Delivery, Stamp], ...] = ()

    def stamp_of(self, delivery: Delivery) -> Stamp | None:
        """What the first delivery was told; None: it was not made, or long ago."""
        return next((stamp for known, stamp in self._stamps if known == delivery), None)

    def with_one(self, delivery: Delivery, stamp: Stamp) -> "Deliveries":
        others = tuple(each for each in self._stamps if each[0] != delivery)
        return Deliveries((*others, (delivery, stamp))[-ROOM:])

    def encode(self) -> bytes:
        return orjson.dumps([[delivery.digest, *stamp] for delivery, stamp in self._stamps])

    @classmethod
    def decode(cls, content: bytes) -> "Deliveries":
        """Decode what `encode` has written; unreadable content gives an empty record."""
        try:
            rows = orjson.loads(content)
            return cls(tuple((Delivery(str(digest)), (int(serial), float(at))) for digest, serial, at in rows))
        except (ValueError, TypeError):
            return cls()
