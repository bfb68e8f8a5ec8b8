"""What luxid asks node daemons for queries, and what their replies mean."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from common.objects.codec import to_json
from common.objects.config import Cluster, Node
from common.objects.index import ConfigIndex
from common.objects.kinds import DiskTemplate, NodeUuid
from daemons.luxid.core.query.engine import Need, NoFacts
from daemons.luxid.core.query.instances import InstanceRow, be_params, hv_params
from daemons.luxid.core.query.nodes import SPINDLES
from protocol.noded.call import Failed, FailureKind, Outcome, Replied
from protocol.noded.facts import (
    AllInstancesInfo,
    ConsoleSubject,
    HypervisorSpec,
    InstanceConsoleInfo,
    NodeInfo,
    StorageUnit,
)

# What the outcomes of calls to node daemons mean for a query.
#
# Source: luxid.md 7.6, "live data"; noded.md 4.


R = TypeVar("R")

# failures that are told one by one
_TOLD: Final = 5


def facts_of(outcome: Outcome[R]) -> R | NoFacts:
    """What a node daemon told, or why it told nothing."""
    if isinstance(outcome, Replied):
        return outcome.value
    if not isinstance(outcome, Failed):
        return NoFacts.OFFLINE
    return NoFacts.NOT_ASKED if outcome.kind is FailureKind.UNSENT else NoFacts.FAILED


def notes_on(outcomes: Iterable[Outcome[R]]) -> Sequence[str]:
    """For people: which nodes told nothing, and why; offline ones are as they should be."""
    failures = list(dict.fromkeys(outcome.text for outcome in outcomes if isinstance(outcome, Failed)))
    told = [f"no live data: {text}" for text in failures[:_TOLD]]
    return told if len(failures) <= _TOLD else [*told, f"no live data of {len(failures) - _TOLD} more nodes"]


# The calls by which node daemons tell what a query needs.
#
# Source: noded.md 5 and 6, "node_info".


_VOLUME_GROUP: Final = "lvm-vg"
_FILES: Final = "file"
# node daemons refuse to tell the space of the others
_STORES: Final = {
    DiskTemplate.PLAIN: _VOLUME_GROUP,
    DiskTemplate.DRBD: _VOLUME_GROUP,
    DiskTemplate.FILE: _FILES,
}


def node_info(config: ConfigIndex, node: Node, needs: AbstractSet[Need]) -> NodeInfo:
    """Ask a node for its boot id, and for what else is needed."""
    return NodeInfo(
        storage_units=_stores(config, node) if Need.STORAGE in needs else (),
        hv_specs=_default_hypervisor(config.cluster) if Need.HYPERVISOR in needs else (),
    )


def instance_calls(rows: Sequence[InstanceRow]) -> Sequence[tuple[Node, AllInstancesInfo]]:
    """Ask the primary nodes of these instances for all instances that they have."""
    if not rows:
        return []
    cluster = rows[0].config.cluster
    params = {each.value: dict(cluster.hvparams.get(each, {})) for each in cluster.enabled_hypervisors}
    call = AllInstancesInfo(tuple(params), params)
    return [(node, call) for node in {row.primary.uuid: row.primary for row in rows if row.primary}.values()]


def console_calls(rows: Iterable[InstanceRow]) -> Sequence[tuple[Node, InstanceConsoleInfo]]:
    """Ask the primary node of each of these instances for its console."""
    nodes: dict[str, Node] = {}
    subjects: dict[str, dict[str, ConsoleSubject]] = defaultdict(dict)
    for row in rows:
        if (node := row.primary) is not None and row.object.name is not None:
            nodes[node.uuid] = node
            subjects[node.uuid][row.object.name] = _subject(row, node)
    return [(node, InstanceConsoleInfo(subjects[uuid])) for uuid, node in nodes.items()]


def _subject(row: InstanceRow, node: Node) -> ConsoleSubject:
    group = row.config.node_group(NodeUuid(node.uuid))
    return ConsoleSubject(
        instance=to_json(row.object),
        node=to_json(node),
        group={} if group is None else to_json(group),
        hvParams=hv_params(row),
        beParams=to_json(be_params(row)),
    )


def _default_hypervisor(cluster: Cluster) -> tuple[HypervisorSpec, ...]:
    return tuple(
        HypervisorSpec(each.value, dict(cluster.hvparams.get(each, {}))) for each in cluster.enabled_hypervisors[:1]
    )


def _stores(config: ConfigIndex, node: Node) -> tuple[StorageUnit, ...]:
    """The stores of the disk templates in use, the default one first; spindles only beside a volume group."""
    cluster, exclusive = config.cluster, config.nd_params(node).exclusive_storage
    units: dict[str, StorageUnit] = {}
    for template in cluster.enabled_disk_templates:
        kind = _STORES.get(template)
        if kind == _FILES and cluster.file_storage_dir:
            units[kind] = StorageUnit(kind, cluster.file_storage_dir, ())
        elif kind == _VOLUME_GROUP and cluster.volume_group_name:
            units[kind] = StorageUnit(kind, cluster.volume_group_name, (exclusive,))
    if _VOLUME_GROUP in units:
        units[SPINDLES] = StorageUnit(SPINDLES, units[_VOLUME_GROUP].key, (exclusive,))
    return tuple(units.values())
