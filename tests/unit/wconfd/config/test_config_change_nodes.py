"""Changes of nodes that are refused, and those that are delivered twice (wconfd.md 2.3)."""

from typing import Any

import attrs
import pytest

from common.errors import ConfigurationError, Conflict
from common.objects.config import Config
from common.objects.kinds import GroupUuid, InstanceUuid, NodeUuid
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from tests.support.configs import UUIDS, instance, node, small_config

NOW = 2000.0
OTHER = NodeUuid("uuid-n2")


def config_with(*, candidate: bool = True, size: int = 10) -> Config:
    """The master, and node n2."""
    config = small_config()
    other = node("n2", candidate=candidate, primary_ip="10.0.0.2", secondary_ip="10.0.0.2")
    certs = {UUIDS.node: "AA", **({OTHER: "BB"} if candidate else {})}
    cluster = attrs.evolve(config.cluster, candidate_certs=certs, candidate_pool_size=size)
    return attrs.evolve(config, cluster=cluster, nodes={**config.nodes, OTHER: other})


def new(name: str = "n3", **changes: Any) -> Any:
    return node(name, serial_no=0, **{"primary_ip": "10.0.0.3", "secondary_ip": "10.0.0.3", **changes})


def refused(config: Config, *nodes: Any, removed: tuple[NodeUuid, ...] = (), **changes: Any) -> str:
    with pytest.raises((Conflict, ConfigurationError)) as raised:
        change_nodes(config, NodeChange(nodes=nodes, removed=removed, **changes), NOW)
    return raised.value.message


def test_a_node_is_added_and_another_removed_in_one_change() -> None:
    config = config_with()
    change = NodeChange(
        nodes=(new(candidate=True),), removed=(OTHER,), certificates={NodeUuid("uuid-n3"): "CC"}, may_fall_short=True
    )

    after, stamp = change_nodes(config, change, NOW)

    added = after.nodes[NodeUuid("uuid-n3")]
    assert OTHER not in after.nodes
    assert (added.serial_no, added.ctime, added.mtime) == (1, NOW, NOW)
    assert after.cluster.candidate_certs == {UUIDS.node: "AA", "uuid-n3": "CC"}
    assert (stamp, after.cluster.serial_no) == ((config.serial_no + 1, NOW), config.cluster.serial_no + 1)


def test_the_second_delivery_of_a_change_is_told_the_same_and_changes_nothing() -> None:
    config = config_with()
    change = NodeChange(removed=(OTHER,), may_fall_short=True)
    after, stamp = change_nodes(config, change, NOW)

    assert change_nodes(after, change, NOW + 1, stamp) == (after, stamp)


def test_a_demoted_node_loses_its_certificate() -> None:
    config = config_with()
    demoted = attrs.evolve(config.nodes[OTHER], master_candidate=False, drained=True)

    after, _ = change_nodes(config, NodeChange(nodes=(demoted,)), NOW)

    assert after.cluster.candidate_certs == {UUIDS.node: "AA"}
    assert after.nodes[OTHER].serial_no == config.nodes[OTHER].serial_no + 1


def test_what_an_unfinished_renewal_of_certificates_has_left_goes_with_its_node_only() -> None:
    config = config_with()
    certs = {**config.cluster.candidate_certs, **{NodeUuid(f"{uuid}-OLDMASTER"): "00" for uuid in config.nodes}}
    config = attrs.evolve(config, cluster=attrs.evolve(config.cluster, candidate_certs=certs))

    after, _ = change_nodes(config, NodeChange(removed=(OTHER,), may_fall_short=True), NOW)

    assert after.cluster.candidate_certs == {UUIDS.node: "AA", f"{UUIDS.node}-OLDMASTER": "00"}


def test_a_candidate_is_not_lost_while_another_node_could_take_its_place() -> None:
    config = config_with()
    demoted = attrs.evolve(config.nodes[OTHER], master_candidate=False)
    third = new()
    with_third = attrs.evolve(config, nodes={**config.nodes, NodeUuid(third.uuid): third})

    assert refused(with_third, demoted).startswith("not enough master candidates would be left: 1 of 10")
    change_nodes(with_third, NodeChange(nodes=(demoted,), may_fall_short=True), NOW)
    change_nodes(config, NodeChange(nodes=(demoted,)), NOW)


def test_a_change_of_what_was_read_too_long_ago_is_refused() -> None:
    config = config_with()
    stale = attrs.evolve(config.nodes[OTHER], serial_no=7)

    assert "was changed since it was read" in refused(config, stale)


def test_the_master_stays_a_candidate_and_in_the_cluster() -> None:
    config = config_with()
    master = config.nodes[UUIDS.node]

    assert "must stay a master candidate" in refused(config, attrs.evolve(master, master_candidate=False))
    assert refused(config, removed=(UUIDS.node,)).startswith("node 'node1.test' is the master")


def test_a_node_with_instances_stays() -> None:
    config = config_with()
    config = attrs.evolve(config, instances={InstanceUuid("i1"): instance("i1", primary_node=OTHER)})

    assert refused(config, removed=(OTHER,)) == "node 'n2' has instances, as 'i1.test'; move or remove them first"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "n2"}, "there is a node 'n2' already"),
        ({"primary_ip": "10.0.0.2"}, "node 'n3' cannot have the address 10.0.0.2: node 'n2' has it"),
        ({"group": GroupUuid("other")}, "node 'n3' cannot be in group 'other', which does not exist"),
        ({"drained": True, "offline": True}, "node 'n3' cannot be drained and offline at once"),
        ({"master_candidate": True}, "node 'n3' cannot become a master candidate: its certificate is not known"),
        (
            {"master_candidate": True, "master_capable": False},
            "node 'n3' is not master capable, and cannot be a master candidate",
        ),
    ],
)
def test_an_unsound_node_is_refused(changes: dict[str, Any], text: str) -> None:
    assert refused(config_with(), attrs.evolve(new(), **changes)) == text


def test_an_unknown_node_cannot_be_removed() -> None:
    assert refused(config_with(), removed=(NodeUuid("x"),)) == "there is no node with the uuid 'x'"
