"""A configuration with the ways to find things in it; each is made when it is first gone.

Source: luxid.md 7.6.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, TypeVar

import attrs

from common.errors import PrerequisiteError
from common.objects.config import Config
from common.objects.disk import AnyDisk
from common.objects.instance import AnyInstance
from common.objects.kinds import DiskTemplate, NodeUuid
from common.objects.naming import natural_key, short_names
from common.objects.network import Network
from common.objects.node import Node
from common.objects.nodegroup import NodeGroup
from common.objects.params import NdParams, filled

O_co = TypeVar("O_co", covariant=True)
N = TypeVar("N", Node, NodeGroup, Network, AnyInstance)

_NOTHING: Final = ()


@attrs.frozen(eq=False)
class Row(Generic[O_co]):
    """An object, and the configuration it is read in."""

    object: O_co
    config: "ConfigIndex"


class ConfigIndex:
    """A configuration, which never changes, and its indexes. Lists are sorted by name, digits as numbers."""

    def __init__(self, config: Config) -> None:
        self.config: Final = config

    @cached_property
    def nodes(self) -> Sequence[Row[Node]]:
        return self._rows(self.config.nodes.values())

    @cached_property
    def groups(self) -> Sequence[Row[NodeGroup]]:
        return self._rows(self.config.nodegroups.values())

    @cached_property
    def networks(self) -> Sequence[Row[Network]]:
        return self._rows(self.config.networks.values())

    @cached_property
    def instances(self) -> Sequence[Row[AnyInstance]]:
        return self._rows(self.config.instances.values())

    @property
    def master_name(self) -> str | None:
        return self.node_name(self.config.cluster.master_node)

    def node_name(self, node: NodeUuid | None) -> str | None:
        found = self.config.nodes.get(node) if node is not None else None
        return found.name if found is not None else None

    def node_group(self, node: NodeUuid | None) -> NodeGroup | None:
        found = self.config.nodes.get(node) if node is not None else None
        return self.config.nodegroups.get(found.group) if found is not None else None

    def nd_params(self, node: Node) -> NdParams:
        """The node's parameters: its own, then its group's, then the cluster's."""
        group = self.config.nodegroups.get(node.group)
        params = self.config.cluster.ndparams
        return filled(params if group is None else filled(params, group.ndparams), node.ndparams)

    def disks(self, instance: AnyInstance) -> list[AnyDisk]:
        return [self.config.disks[disk] for disk in instance.disks if disk in self.config.disks]

    def secondary_nodes(self, instance: AnyInstance) -> list[NodeUuid]:
        """The other nodes of its mirrored disks."""
        found: dict[NodeUuid, None] = {}
        for disk in self.disks(instance):
            found.update(dict.fromkeys(_mirror_nodes(disk)))
        return [node for node in found if node != instance.primary_node]

    def primaries(self, node: str) -> Sequence[str]:
        """The names of the instances whose primary node this is."""
        return self._primaries.get(node, _NOTHING)

    def secondaries(self, node: str) -> Sequence[str]:
        return self._secondaries.get(node, _NOTHING)

    def group_nodes(self, group: str) -> Sequence[Node]:
        return self._group_nodes.get(group, _NOTHING)

    def network_instances(self, network: str) -> Sequence[str]:
        return self._network_instances.get(network, _NOTHING)

    @cached_property
    def _primaries(self) -> Mapping[str, Sequence[str]]:
        return self._names_by(lambda each: [each.primary_node] if each.primary_node is not None else [])

    @cached_property
    def _secondaries(self) -> Mapping[str, Sequence[str]]:
        return self._names_by(self.secondary_nodes)

    @cached_property
    def _network_instances(self) -> Mapping[str, Sequence[str]]:
        return self._names_by(lambda each: {nic.network for nic in each.nics if nic.network is not None})

    @cached_property
    def _group_nodes(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for row in self.nodes:
            found[row.object.group].append(row.object)
        return found

    def _names_by(self, places: Callable[[AnyInstance], Iterable[str]]) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for row in self.instances:
            if row.object.name is not None:
                for place in places(row.object):
                    found[place].append(row.object.name)
        return found

    def _rows(self, objects: Iterable[N]) -> list[Row[N]]:
        return [Row(each, self) for each in sorted(objects, key=lambda each: natural_key(each.name or ""))]


def _mirror_nodes(disk: AnyDisk) -> Iterable[NodeUuid]:
    if disk.dev_type is DiskTemplate.DRBD and disk.logical_id is not None:
        return [NodeUuid(node) for node in disk.logical_id[:2]]
    return [node for child in disk.children for node in _mirror_nodes(child)]


def find_named(rows: Sequence[Row[N]], names: Iterable[object], what: str, *, is_host: bool) -> list[Row[N]]:
    """The objects of these names, each once, in the order asked.

    Args:
        is_host: names are host names, of which a short form will do if it is unique.
    Raises: PrerequisiteError: there is none of a name, or several.
    Cost: O(rows + names).
    """
    by_name: dict[object, list[Row[N]]] = defaultdict(list)
    for row in rows:
        by_name[row.object.name].append(row)
    exact = frozenset(by_name)
    if is_host:
        for row in rows:
            for short in short_names(row.object.name or ""):
                if short not in exact:
                    by_name[short].append(row)
    found: dict[int, Row[N]] = {}
    for name in names:
        matches = by_name.get(name, [])
        if not matches:
            raise PrerequisiteError(f"there is no {what} {name!r}", "unknown_entity")
        if len(matches) > 1:
            full = ", ".join(str(row.object.name) for row in matches)
            raise PrerequisiteError(f"{what} {name!r} may be any of {full}; give the whole name", "wrong_input")
        found[id(matches[0])] = matches[0]
    return list(found.values())
