"""The size of the pool of master candidates, and who is promoted (opcodes.md 6.2)."""

from common.nodes.candidates import has_room, missing_candidates, promotable, wanted_candidates
from tests.support.configs import node


def test_the_pool_is_no_larger_than_the_nodes_allow() -> None:
    nodes = [node("n1", candidate=True), node("n2"), node("n3", offline=True), node("n4", master_capable=False)]

    assert wanted_candidates(nodes, 10) == 2
    assert wanted_candidates(nodes, 1) == 1
    assert missing_candidates(nodes, 10) == 1
    assert missing_candidates(nodes, 1) == 0


def test_nodes_are_promoted_in_the_natural_order_of_their_names() -> None:
    nodes = [node("n10"), node("n2"), node("n1", candidate=True), node("n3", drained=True)]

    assert [one.name for one in promotable(nodes)] == ["n2", "n10"]


def test_there_is_room_for_a_node_until_the_pool_has_its_size() -> None:
    others = [node("n1", candidate=True), node("n2", candidate=True)]

    assert has_room(others, 3)
    assert not has_room(others, 2)
    # a node that could be promoted does not keep the place
    assert has_room([node("n1", candidate=True), node("n2")], 2)
