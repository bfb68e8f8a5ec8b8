"""Adding, replacing and removing nodes, with their roles and the candidates' certificates. Pure.

Theory. Node daemons obey the callers whose certificates `candidate_certs` has, so a role and its certificate change
in one step: afterwards there is a digest for each candidate, and none for other nodes. The job that asks for a change
knows the digests from the nodes; what it decided upon may have changed since, so everything is checked here.

Source: noded.md 3; opcodes.md 4; wconfd.md 2.3.
"""

from collections.abc import Iterable, Mapping

import attrs

from common.errors import ConfigurationError, Conflict
from common.nodes.candidates import holder_of, missing_candidates
from common.objects.config import Config, Node
from common.objects.index import ConfigIndex
from common.objects.kinds import NodeUuid
from daemons.wconfd.core.config.configstate import (
    Stamp,
    advanced,
    object_of,
    stored_anew,
    touched,
    with_cluster_touched,
)

# The certificates that node daemons obey: a digest for each master candidate. Pure.
#
# Source: noded.md 3.


def with_masters(config: Config, digest: str, now: float) -> Config:
    """The configuration with the master's certificate; one that is there stays: only it is known to the nodes.

    Args:
        digest: of the certificate with which the master calls nodes.
        now: seconds since the epoch.
    """
    cluster = config.cluster
    if cluster.master_node in cluster.candidate_certs:
        return config
    certs = {**cluster.candidate_certs, cluster.master_node: digest}
    after = touched(attrs.evolve(cluster, candidate_certs=certs), now)
    return advanced(config, attrs.evolve(config, cluster=after), now)


@attrs.frozen(kw_only=True)
class NodeChange:
    """What is asked; the fields are those of `protocol.wconfd.changes.ChangeNodes`."""

    nodes: tuple[Node, ...] = ()
    removed: tuple[NodeUuid, ...] = ()
    certificates: Mapping[NodeUuid, str] = attrs.field(factory=dict)
    may_fall_short: bool = False
    candidate_pool_size: int | None = None


def change_nodes(config: Config, change: NodeChange, now: float, told: Stamp | None = None) -> tuple[Config, Stamp]:
    """Make the change; return the configuration, with its serial number and time.

    Args:
        now: seconds since the epoch.
        told: result of the first delivery of this very call, if there was one.
    Raises:
        ConfigurationError: a node was changed since it was read, or is not there; a uuid is taken; no such group.
        Conflict: the cluster would be unsound; the message says why.
    """
    names_nodes = bool(change.nodes or change.removed)
    # without nodes, whose serial numbers tell one call from another, an equal call may be a new wish
    if told and names_nodes:
        return config, told
    nodes = {uuid: node for uuid, node in config.nodes.items() if uuid not in change.removed}
    for uuid in change.removed:
        _check_removal(config, uuid)
    for given in change.nodes:
        uuid = NodeUuid(given.uuid)
        nodes[uuid] = _replacing(config, given, now)
        _check_alone(nodes, given, config.nodes.get(uuid))
    _check_roles(config, nodes)
    certs = _certificates(config, nodes, change.certificates)
    size = change.candidate_pool_size or config.cluster.candidate_pool_size
    if not change.may_fall_short:
        _check_pool(config, nodes, size)
    cluster = attrs.evolve(config.cluster, candidate_certs=certs, candidate_pool_size=size)
    after = config
    if names_nodes or cluster != config.cluster:
        after = advanced(config, with_cluster_touched(attrs.evolve(config, nodes=nodes, cluster=cluster), now), now)
    return after, (after.serial_no, after.mtime)


def _check_removal(config: Config, uuid: NodeUuid) -> None:
    node = object_of(config.nodes, uuid, "node")
    if uuid == config.cluster.master_node:
        raise Conflict(f"node '{node.name}' is the master; move the master to another node first")
    index = ConfigIndex(config)
    if instances := [*index.primaries(uuid), *index.secondaries(uuid)]:
        raise Conflict(f"node '{node.name}' has instances, as '{instances[0]}'; move or remove them first")


def _replacing(config: Config, given: Node, now: float) -> Node:
    """The node as it is stored."""
    if given.group not in config.nodegroups:
        raise ConfigurationError(f"node '{given.name}' cannot be in group '{given.group}', which does not exist")
    return stored_anew(config, config.nodes.get(NodeUuid(given.uuid)), given, "node", now)


def _check_alone(nodes: Mapping[NodeUuid, Node], given: Node, before: Node | None) -> None:
    """Refuse a name or an address of another node, unless the node has had it."""
    own = {given.primary_ip, given.secondary_ip} - ({before.primary_ip, before.secondary_ip} if before else set())
    for other in nodes.values():
        if other.uuid == given.uuid:
            continue
        if other.name == given.name:
            raise Conflict(f"there is a node '{given.name}' already")
        if taken := own & {other.primary_ip, other.secondary_ip}:
            raise Conflict(f"node '{given.name}' cannot have the address {min(taken)}: node '{other.name}' has it")


def _check_roles(config: Config, nodes: Mapping[NodeUuid, Node]) -> None:
    for uuid, node in nodes.items():
        if node == config.nodes.get(uuid):
            continue
        if uuid == config.cluster.master_node and not node.master_candidate:
            raise Conflict(f"node '{node.name}' is the master and must stay a master candidate; move the master first")
        roles = [name for name in ("master_candidate", "drained", "offline") if getattr(node, name)]
        if len(roles) > 1:
            raise Conflict(f"node '{node.name}' cannot be {' and '.join(roles)} at once")
        if node.master_candidate and not node.master_capable:
            raise Conflict(f"node '{node.name}' is not master capable, and cannot be a master candidate")


def _certificates(
    config: Config, nodes: Mapping[NodeUuid, Node], given: Mapping[NodeUuid, str]
) -> Mapping[NodeUuid, str]:
    known = {**config.cluster.candidate_certs, **given}
    for uuid, node in nodes.items():
        before = config.nodes.get(uuid)
        if node.master_candidate and uuid not in known and not (before and before.master_candidate):
            raise Conflict(f"node '{node.name}' cannot become a master candidate: its certificate is not known")
    holders = {uuid for uuid, node in nodes.items() if node.master_candidate or uuid == config.cluster.master_node}
    # an unfinished renewal has left two for a node
    return {key: digest for key, digest in known.items() if holder_of(key) in holders}


def _check_pool(config: Config, nodes: Mapping[NodeUuid, Node], size: int) -> None:
    """Refuse to lose a candidate whose place another node could take; the lost one does not count, as in Ganeti."""
    lost = _candidates(config.nodes.values()) - _candidates(nodes.values())
    others = [node for node in nodes.values() if node.uuid not in lost]
    missing = missing_candidates(others, size)
    if lost and missing:
        raise Conflict(
            f"not enough master candidates would be left: {missing} of {size} would be missing; "
            "promote other nodes first"
        )


def _candidates(nodes: Iterable[Node]) -> set[str]:
    return {node.uuid for node in nodes if node.master_candidate}
