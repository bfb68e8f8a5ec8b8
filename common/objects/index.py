"""A configuration and its look-up indexes; each index is built on first use.

Source: luxid.md 7.6.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol, TypeVar

from common.errors import PrerequisiteError
from common.objects.config import AnyDisk, AnyInstance, Cluster, Config, NdParams, Network, Node, NodeGroup, filled
from common.objects.kinds import DiskTemplate, NodeUuid, natural_key, short_names


class Named(Protocol):
    """An object with a name; one that is still to be made may lack it."""

    @property
    def name(self) -> str | None: ...


N = TypeVar("N", bound=Named)

_NOTHING: Final = ()


class ConfigIndex:
    """An immutable configuration and its look-up indexes. Lists are sorted by name, with digits as numbers."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def config(self) -> Config:
        return self._config

    @property
    def cluster(self) -> Cluster:
        return self.config.cluster

    @cached_property
    def nodes(self) -> Sequence[Node]:
        return _by_name(self.config.nodes.values())

    @cached_property
    def groups(self) -> Sequence[NodeGroup]:
        return _by_name(self.config.nodegroups.values())

    @cached_property
    def networks(self) -> Sequence[Network]:
        return _by_name(self.config.networks.values())

    @cached_property
    def instances(self) -> Sequence[AnyInstance]:
        return _by_name(self.config.instances.values())

    @property
    def master(self) -> Node:
        """Raises: KeyError: the configuration names none of its nodes, as one that is not sound."""
        return self.config.nodes[self.cluster.master_node]

    @property
    def master_name(self) -> str | None:
        return self.node_name(self.cluster.master_node)

    def node_name(self, node: NodeUuid | None) -> str | None:
        found = self.config.nodes.get(node) if node is not None else None
        return found.name if found is not None else None

    def node_named(self, name: str) -> Node | None:
        """The node with this name or UUID, or with a unique short form of its name; None: there is none, or several."""
        found = next((node for node in self.nodes if name in (node.name, node.uuid)), None)
        with contextlib.suppress(PrerequisiteError):
            return found or find_named(self.nodes, [name], "node", is_host=True)[0]
        return None

    def node_group(self, node: NodeUuid | None) -> NodeGroup | None:
        found = self.config.nodes.get(node) if node is not None else None
        return self.config.nodegroups.get(found.group) if found is not None else None

    def nd_params(self, node: Node) -> NdParams:
        """The node's parameters: its own, then its group's, then the cluster's."""
        group = self.config.nodegroups.get(node.group)
        params = self.cluster.ndparams
        return filled(params if group is None else filled(params, group.ndparams), node.ndparams)

    def disks(self, instance: AnyInstance) -> list[AnyDisk]:
        return [self.config.disks[disk] for disk in instance.disks if disk in self.config.disks]

    def secondary_nodes(self, instance: AnyInstance) -> list[NodeUuid]:
        """The other nodes of the instance's mirrored disks."""
        found: dict[NodeUuid, None] = {}
        for disk in self.disks(instance):
            found.update(dict.fromkeys(_mirror_nodes(disk)))
        return [node for node in found if node != instance.primary_node]

    def primaries(self, node: str) -> Sequence[str]:
        """The names of the instances with this primary node."""
        return self._primaries.get(node, _NOTHING)

    def secondaries(self, node: str) -> Sequence[str]:
        return self._secondaries.get(node, _NOTHING)

    def node_instances(self, node: str) -> Sequence[str]:
        """The names of the instances with this primary or secondary node; primary ones first."""
        return [*self.primaries(node), *self.secondaries(node)]

    def group_nodes(self, group: str) -> Sequence[Node]:
        return self._group_nodes.get(group, _NOTHING)

    def group_instances(self, group: str) -> Sequence[str]:
        """The names of the instances with a primary or secondary node in the group, in the order of code points."""
        return sorted({name for node in self.group_nodes(group) for name in self.node_instances(node.uuid)})

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
        for node in self.nodes:
            found[node.group].append(node)
        return found

    def _names_by(self, places: Callable[[AnyInstance], Iterable[str]]) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for instance in self.instances:
            if instance.name is not None:
                for place in places(instance):
                    found[place].append(instance.name)
        return found


def _by_name(objects: Iterable[N]) -> list[N]:
    return sorted(objects, key=lambda each: natural_key(each.name or ""))


def _mirror_nodes(disk: AnyDisk) -> Iterable[NodeUuid]:
    if disk.dev_type is DiskTemplate.DRBD and disk.logical_id is not None:
        return [NodeUuid(node) for node in disk.logical_id[:2]]
    return [node for child in disk.children for node in _mirror_nodes(child)]


def find_named(objects: Sequence[N], names: Iterable[object], what: str, *, is_host: bool) -> list[N]:
    """Return the objects with these names, each once, in the order asked.

    Args:
        is_host: names are host names; a unique short form is accepted.
    Raises: PrerequisiteError: no object has a name, or several match it.
    Cost: O(objects + names).
    """
    by_name: dict[object, list[N]] = defaultdict(list)
    for each in objects:
        by_name[each.name].append(each)
    exact = frozenset(by_name)
    if is_host:
        for each in objects:
            for short in short_names(each.name or ""):
                if short not in exact:
                    by_name[short].append(each)
    found: dict[int, N] = {}
    for name in names:
        matches = by_name.get(name, [])
        if not matches:
            raise PrerequisiteError(f"there is no {what} {name!r}", "unknown_entity")
        if len(matches) > 1:
            full = ", ".join(str(each.name) for each in matches)
            raise PrerequisiteError(f"{what} {name!r} may be any of {full}; give the whole name", "wrong_input")
        found[id(matches[0])] = matches[0]
    return list(found.values())
