"""Folding of the graph of waits against a naive twin: nothing is lost, and counts are right."""

from collections import Counter
from itertools import pairwise

import attrs
from hypothesis import given
from hypothesis import strategies as st

from daemons.rapid.page.waitgraph import ALL, BOX_WIDTH, GraphNode, WaitArrow, fold, place

NAMES = ("scan-1", "scan-2", "load-7", "load-8", "web-a", "web-b", "other")
STATES = ("waiting", "queued", "running")


@attrs.frozen
class Case:
    nodes: list[GraphNode]
    waits: list[WaitArrow]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Layers of nodes: each waits for some of the layer before, so that many stand alike; some waits close a ring."""
    layers = draw(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8), min_size=1, max_size=5))
    if draw(st.booleans()):
        # parallel chains
        layers = [["load-7"] * draw(st.integers(1, 6))] * draw(st.integers(1, 9))
    names = [(f"{depth}/{at}", name, depth) for depth, layer in enumerate(layers) for at, name in enumerate(layer)]
    waits = []
    for depth, (before, layer) in enumerate(pairwise(layers)):
        how = draw(st.sampled_from(["all", "one to one", "some"]))
        for at in range(len(layer)):
            if how == "all":
                chosen = list(range(len(before)))
            elif how == "one to one":
                chosen = [at % len(before)]
            else:
                chosen = draw(st.lists(st.integers(0, len(before) - 1), max_size=3, unique=True))
            waits += [WaitArrow(f"{depth + 1}/{at}", f"{depth}/{other}", "") for other in chosen]
    if draw(st.booleans()) and len(names) > 1:
        one, other = draw(st.lists(st.sampled_from([key for key, _, _ in names]), min_size=2, max_size=2, unique=True))
        waits.append(WaitArrow(one, other, "node/x"))
    waiting = {each.waiter for each in waits}
    over = {key for key, _, depth in names if depth == 0 and key not in waiting and draw(st.booleans())}
    waits = [attrs.evolve(each, is_over=each.holder in over) for each in waits]
    nodes = [
        GraphNode(
            key,
            name,
            "success" if key in over else draw(st.sampled_from(STATES)),
            is_root=key not in waiting and key not in over,
            is_over=key in over,
        )
        for key, name, _ in names
    ]
    return Case(nodes, waits)


@given(cases(), st.sets(st.integers(0, 20), max_size=2), st.sampled_from([(), ("scan-*",), (ALL,)]))
def test_nothing_is_lost_and_counts_are_right(case: Case, kept: set[int], unfolded: tuple[str, ...]) -> None:
    alone = {case.nodes[at].key for at in kept if at < len(case.nodes)}

    folded = fold(case.nodes, case.waits, alone, unfolded)

    box = {member.key: at for at, group in enumerate(folded.groups) for member in group.members}
    # each node is in one box
    assert sorted(member.key for group in folded.groups for member in group.members) == sorted(box)
    assert set(box) == {node.key for node in case.nodes}
    for group in folded.groups:
        assert group.counts == Counter(member.status for member in group.members)
        if group.is_fold:
            assert not alone & {member.key for member in group.members}
            assert ALL not in unfolded
            assert group.shape
        assert not (group.is_chain and any(member.is_root for member in group.members))
    # the naive twin: an arrow for each pair of boxes between which somebody waits
    pairs = {(box[each.waiter], box[each.holder]) for each in case.waits}
    assert {(arrow.waiter, arrow.holder) for arrow in folded.arrows} == {(one, other) for one, other in pairs if one != other}  # fmt: skip  # noqa: E501
    inside = {one for one, other in pairs if one == other}
    assert all(folded.groups[at].is_chain for at in inside)
    for arrow in folded.arrows:
        joined = [each for each in case.waits if (box[each.waiter], box[each.holder]) == (arrow.waiter, arrow.holder)]
        assert arrow.is_over == all(each.is_over for each in joined)
        assert set(arrow.what) == {each.what for each in joined} - {""}


@given(cases())
def test_all_arrows_but_those_of_rings_lead_to_the_left_and_no_boxes_overlap(case: Case) -> None:
    drawn = place(fold(case.nodes, case.waits))

    for arrow in drawn.arrows:
        if not arrow.is_ring:
            assert drawn.boxes[arrow.holder].x + BOX_WIDTH < drawn.boxes[arrow.waiter].x
    places = {(box.x, box.y) for box in drawn.boxes}
    assert len(places) == len(drawn.boxes)
    # without a ring in the waits, none is drawn
    if not any(each.what for each in case.waits):
        assert not any(arrow.is_ring for arrow in drawn.arrows)
