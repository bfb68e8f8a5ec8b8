"""The graph of waits."""

from daemons.rapid.page.drawing import BOX_WIDTH, LockGraph, WaitArrow, draw_graph


def columns(drawn: LockGraph) -> dict[str, int]:
    return {box.owner: box.x for box in drawn.boxes}


def test_roots_stand_on_the_left_and_all_arrows_lead_to_the_left() -> None:
    drawn = draw_graph(
        [WaitArrow("job/3", "job/2", "b"), WaitArrow("job/2", "job/1", "a"), WaitArrow("job/4", "job/1", "a")]
    )

    x = columns(drawn)
    assert x["job/1"] < x["job/2"] < x["job/3"]
    assert x["job/4"] == x["job/2"]
    assert [box.owner for box in drawn.boxes if box.is_root] == ["job/1"]
    assert all(x[arrow.holder] + BOX_WIDTH <= x[arrow.waiter] for arrow in drawn.arrows)


def test_a_ring_is_drawn_and_told_apart() -> None:
    drawn = draw_graph(
        [WaitArrow("job/1", "job/2", "a"), WaitArrow("job/2", "job/1", "b"), WaitArrow("job/3", "job/1", "a")]
    )

    assert {box.owner for box in drawn.boxes} == {"job/1", "job/2", "job/3"}
    assert [(arrow.waiter, arrow.holder) for arrow in drawn.arrows if arrow.is_ring] == [("job/2", "job/1")]
    assert not any(box.is_root for box in drawn.boxes)


def test_several_locks_of_one_pair_are_one_arrow() -> None:
    drawn = draw_graph(
        [WaitArrow("job/2", "job/1", "a"), WaitArrow("job/2", "job/1", "b"), WaitArrow("job/2", "job/1", "a")]
    )

    assert [arrow.what for arrow in drawn.arrows] == ["a and 1 more"]


def test_boxes_do_not_overlap() -> None:
    drawn = draw_graph([WaitArrow(f"job/{each}", "job/1", "a") for each in range(2, 30)])

    places = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(places)) == len(places)


def test_a_long_chain_needs_no_recursion() -> None:
    drawn = draw_graph([WaitArrow(f"job/{each}", f"job/{each + 1}", "a") for each in range(5000)])

    assert [box.owner for box in drawn.boxes if box.is_root] == ["job/5000"]
