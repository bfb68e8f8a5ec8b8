"""A configuration with what the questions ask of it, found when it is loaded.

Source: confd.md 4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

import attrs

from common.objects.config import AnyDisk, AnyInstance, Config, Node, filled
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate, NodeUuid, short_names

_DEFAULT: Final = "default"


class CatalogueEntry(Protocol):
    """What has an id and, mostly, a name."""

    @property
    def name(self) -> str | None: ...

    @property
    def uuid(self) -> str: ...


T = TypeVar("T", bound=CatalogueEntry)


class NoEntry(Exception):
    """There is no object with this name, or there are several."""


@attrs.frozen
class DrbdMinor:
    """A minor number on a node, and what uses it."""

    node: str
    minor: int
    instance: str
    disk: str
    role: str
    peer: str

    def to_wire(self) -> list[object]:
        return [self.node, self.minor, self.instance, self.disk, self.role, self.peer]


class Catalogue:
    """An immutable configuration and its look-up tables.

    Args: document: the same configuration, as JSON values.
    """

    def __init__(self, config: Config, document: Mapping[str, object]) -> None:
        self._index = ConfigIndex(config)
        self.config = config
        self.document = document
        self.nodes: Final = Names("Node", config.nodes.values())
        self.instances: Final = Names("Instance", config.instances.values())
        # link -> address -> instance
        self._homes = _homes(config)

    @property
    def serial(self) -> int:
        """The serial number of the cluster."""
        return self.config.cluster.serial_no

    @property
    def default_link(self) -> str:
        """The link of interfaces that name none."""
        return self.config.cluster.nicparams[_DEFAULT].link

    @property
    def master(self) -> Node | None:
        return self.config.nodes.get(self.config.cluster.master_node)

    @cached_property
    def candidate_ips(self) -> Sequence[str]:
        return [node.primary_ip for node in self.config.nodes.values() if node.master_candidate]

    @cached_property
    def node_ips(self) -> Sequence[str]:
        return [node.primary_ip for node in self.config.nodes.values()]

    def instance_ips(self, link: str) -> Sequence[str]:
        return list(self._homes.get(link, ()))

    def home_of(self, ip: str, link: str) -> str | None:
        """The primary address of the node that runs the instance with this address on the link."""
        instance = self._homes.get(link, {}).get(ip)
        node = instance and instance.primary_node and self.config.nodes.get(instance.primary_node)
        return node.primary_ip if node else None

    def disks(self, instance: AnyInstance) -> Sequence[AnyDisk]:
        return self._index.disks(instance)

    def instances_of(self, node: Node) -> tuple[Sequence[AnyInstance], Sequence[AnyInstance]]:
        """Those whose primary node this is, and those with mirrored disks on it."""
        return self._primaries.get(node.uuid, ()), self._secondaries.get(node.uuid, ())

    def minors_of(self, node: Node) -> Sequence[DrbdMinor]:
        return self._minors.get(node.uuid, ())

    @cached_property
    def _primaries(self) -> Mapping[str, Sequence[AnyInstance]]:
        return _grouped((each.primary_node, each) for each in self.config.instances.values() if each.primary_node)

    @cached_property
    def _secondaries(self) -> Mapping[str, Sequence[AnyInstance]]:
        instances = self.config.instances.values()
        return _grouped((node, each) for each in instances for node in self._index.secondary_nodes(each))

    @cached_property
    def _minors(self) -> Mapping[str, Sequence[DrbdMinor]]:
        return _grouped(
            pair
            for instance in self.config.instances.values()
            for number, disk in enumerate(self.disks(instance))
            for mirror in _mirrors(disk)
            for pair in self._ends(instance, f"disk/{number}", mirror)
        )

    def _ends(self, instance: AnyInstance, disk: str, mirror: AnyDisk) -> Iterator[tuple[str, DrbdMinor]]:
        """Both ends of a mirrored disk."""
        assert mirror.logical_id is not None, "mirrors without a place are left out"
        first, second, _, first_minor, second_minor, _ = mirror.logical_id
        for uuid, minor, peer in ((first, first_minor, second), (second, second_minor, first)):
            role = "primary" if uuid == instance.primary_node else "secondary"
            own, other = self._node_name(uuid), self._node_name(peer)
            yield uuid, DrbdMinor(own, minor, instance.name or instance.uuid, disk, role, other)

    def _node_name(self, uuid: str) -> str:
        return self._index.node_name(NodeUuid(uuid)) or uuid


class Names(Generic[T]):
    """Objects by uuid and by name, also by names that are cut at a dot, if only one object has them."""

    def __init__(self, what: str, objects: Iterable[T]) -> None:
        self._what = what
        objects = tuple(objects)
        self._by_uuid = {each.uuid: each for each in objects}
        self._by_name = {each.name: each for each in objects if each.name is not None}
        self._short = _grouped((short, each) for name, each in self._by_name.items() for short in short_names(name))

    def find(self, name: str) -> T:
        """Raises: NoEntry: the text says which name."""
        found = self._by_uuid.get(name) or self._by_name.get(name)
        if found is not None:
            return found
        short = self._short.get(name, ())
        if len(short) == 1:
            return short[0]
        raise NoEntry(f"{self._what} name {name} {'is ambiguous' if short else 'not found'}")


K = TypeVar("K")
V = TypeVar("V")


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _mirrors(disk: AnyDisk) -> Iterator[AnyDisk]:
    if disk.dev_type is DiskTemplate.DRBD and disk.logical_id is not None:
        yield disk
    for child in disk.children:
        yield from _mirrors(child)


def _homes(config: Config) -> Mapping[str, Mapping[str, AnyInstance]]:
    defaults = config.cluster.nicparams.get(_DEFAULT)
    found: dict[str, dict[str, AnyInstance]] = {}
    for instance in config.instances.values():
        for nic in instance.nics:
            if nic.ip is not None and defaults is not None:
                found.setdefault(filled(defaults, nic.nicparams).link, {})[nic.ip] = instance
    return found


# A place in a JSON document: JSON pointers.
#
# Source: RFC 6901; confd.md 4.


# digits of the longest index that is read
_INDEX_DIGITS: Final = 9


class NoPlace(Exception):
    """The text is no pointer, or nothing is there."""


def find(document: object, pointer: str) -> object:
    """The value at a place. Raises: NoPlace: also for the whole document."""
    if not pointer.startswith("/"):
        raise NoPlace
    value = document
    for token in pointer[1:].split("/"):
        value = _step(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def _step(value: object, token: str) -> object:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and token.isascii() and token.isdigit() and len(token) <= _INDEX_DIGITS:
        index = int(token)
        if index < len(value):
            return value[index]
    raise NoPlace
