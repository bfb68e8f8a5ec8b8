"""The configuration names the node that holds the lease as the master (DESIGN section 14)."""

import attrs
import pytest

from common.errors import Conflict
from common.objects.config import Config, Node
from common.objects.kinds import NodeUuid
from daemons.wconfd.core.config.replicas import with_master
from daemons.wconfd.core.config.verify import find_problems
from tests.support.configs import UUIDS, node, small_config

NOW = 2000.0


def config_with(*nodes: Node) -> Config:
    config = small_config()
    return attrs.evolve(config, nodes={**config.nodes, **{NodeUuid(each.uuid): each for each in nodes}})


def test_the_new_master_is_named_and_all_else_stays() -> None:
    other, gone = node("node2.test", candidate=True), node("node3.test", offline=True)
    config = config_with(other, gone)

    after, has_changed = with_master(config, "node2.test", NOW)

    assert has_changed
    assert after.cluster.master_node == other.uuid
    assert after.nodes == config.nodes
    assert (after.serial_no, after.cluster.serial_no) == (config.serial_no + 1, config.cluster.serial_no + 1)
    assert find_problems(after) == ()


def test_it_is_no_change_for_the_node_that_is_the_master() -> None:
    config = config_with()

    assert with_master(config, config.nodes[UUIDS.node].name, NOW) == (config, False)


@pytest.mark.parametrize("role", [{}, {"offline": True}, {"drained": True}])
def test_a_master_is_a_candidate_whatever_it_was(role: dict[str, bool]) -> None:
    other = node("node2.test", **role)

    after, has_changed = with_master(config_with(other), "node2.test", NOW)

    named = after.nodes[NodeUuid(other.uuid)]
    assert has_changed
    assert (named.master_candidate, named.offline, named.drained) == (True, False, False)
    assert named.serial_no == other.serial_no + 1


def test_a_node_that_is_not_there_cannot_be_the_master() -> None:
    with pytest.raises(Conflict, match=r"called 'node9.test'.*set 'node_name' in '\[cluster\]'"):
        with_master(config_with(), "node9.test", NOW)
