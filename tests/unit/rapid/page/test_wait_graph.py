"""The graph of waits: what is folded, and where boxes stand."""

from collections.abc import Sequence

from daemons.rapid.page.waitgraph import ALL, BOX_WIDTH, DrawnGraph, Folded, GraphNode, WaitArrow, fold, place


def graph(
    waits: Sequence[tuple[str, str]], statuses: dict[str, str] | None = None, over: Sequence[str] = ()
) -> tuple[list[GraphNode], list[WaitArrow]]:
    waiting = {waiter for waiter, _ in waits}
    names = list(dict.fromkeys(name for pair in waits for name in pair))
    nodes = [
        GraphNode(
            name,
            name,
            (statuses or {}).get(name, "waiting"),
            is_root=name not in waiting and name not in over,
            is_over=name in over,
        )
        for name in names
    ]
    return nodes, [WaitArrow(waiter, holder, "", holder in over) for waiter, holder in waits]


def brief(folded: Folded) -> list[tuple[str, int]]:
    return sorted((group.shape or group.members[0].name, len(group.members)) for group in folded.groups)


def x_of(drawn: DrawnGraph) -> dict[str, int]:
    return {box.group.members[0].name: box.x for box in drawn.boxes}


def test_roots_stand_on_the_left_and_all_arrows_lead_to_the_left() -> None:
    drawn = place(fold(*graph([("c", "b"), ("b", "a"), ("d", "a")])))

    x = x_of(drawn)
    assert x["a"] < x["b"] < x["c"]
    assert x["d"] == x["b"]
    assert all(drawn.boxes[each.holder].x + BOX_WIDTH < drawn.boxes[each.waiter].x for each in drawn.arrows)


def test_a_fan_is_one_box_that_counts_the_states_of_live_and_ended_ones() -> None:
    scans = [f"scan-host-{number}" for number in range(25)]
    states = dict.fromkeys(scans[:20], "success") | dict.fromkeys(scans[20:], "running")
    nodes, waits = graph([("report", scan) for scan in scans], states, over=scans[:20])

    folded = fold(nodes, waits)

    assert brief(folded) == [("report", 1), ("scan-host-*", 25)]
    (scan,) = (group for group in folded.groups if group.is_fold)
    assert scan.counts == {"success": 20, "running": 5}
    assert [(each.is_over, each.is_ring) for each in folded.arrows] == [(False, False)]
    assert len(fold(nodes, waits, unfolded=["scan-host-*"]).groups) == 26
    assert len(fold(nodes, waits, unfolded=[ALL]).groups) == 26


def test_a_node_that_is_kept_stands_alone() -> None:
    nodes, waits = graph([("report", f"scan-{number}") for number in range(25)])

    folded = fold(nodes, waits, kept=["scan-7"])

    assert brief(folded) == [("report", 1), ("scan-*", 24), ("scan-7", 1)]


def test_parallel_chains_of_different_jobs_are_folded_step_by_step() -> None:
    waits = [pair for n in range(9) for pair in ((f"load-{n}", f"parse-{n}"), (f"parse-{n}", f"fetch-{n}"))]

    folded = fold(*graph(waits))

    assert brief(folded) == [("fetch-*", 9), ("load-*", 9), ("parse-*", 9)]
    assert len(folded.arrows) == 2


def test_a_chain_is_folded_without_its_root() -> None:
    waits = [(f"step-{number + 1}", f"step-{number}") for number in range(1000)]

    folded = fold(*graph(waits))

    assert brief(folded) == [("step-*", 1000), ("step-0", 1)]
    assert [group.is_chain for group in folded.groups if group.is_fold] == [True]


def test_parallel_chains_of_the_same_job_are_one_box_beside_their_roots() -> None:
    waits = [(f"c{chain}-{n + 1}", f"c{chain}-{n}") for chain in range(5) for n in range(40)]

    folded = fold(*graph(waits))

    assert brief(folded) == [("c*-*", 5), ("c*-*", 200)]
    assert [group.is_chain for group in folded.groups if len(group.members) == 200] == [True]


def test_hosts_without_numbers_are_folded_by_how_their_names_begin_and_many_by_nothing() -> None:
    hosts = ("alpha", "beta", "gamma", "delta", "eta", "zeta")
    some = graph([("report", f"scan {host}") for host in hosts])
    words = ["a", "bb", "c-c", "d", "e e", "f", "g", "h.h", "i", "j", "k", "l"]
    many = graph([("report", f"{word}x") for word in words])

    assert brief(fold(*some)) == [("report", 1), ("scan *", 6)]
    assert brief(fold(*many)) == [("*", 12), ("report", 1)]


def test_a_ring_is_drawn_told_apart_and_never_folded() -> None:
    waits = [("ring-1", "ring-2"), ("ring-2", "ring-3"), ("ring-3", "ring-4"), ("ring-4", "ring-1"), ("w", "ring-1")]

    folded = fold(*graph(waits))

    assert [(each.waiter, each.holder) for each in folded.arrows if each.is_ring] == [(3, 0)]
    assert ("ring-1", 1) in brief(folded)
    assert ("ring-4", 1) in brief(folded)


def test_several_locks_of_one_pair_are_one_arrow() -> None:
    nodes, _ = graph([("b", "a")])

    (arrow,) = fold(nodes, [WaitArrow("b", "a", what) for what in ("x", "y", "x")]).arrows

    assert arrow.what == ("x", "y")


def test_a_thousand_nodes_that_are_not_alike_stand_apart() -> None:
    waits = [(f"{'ab'[number % 2] * (number % 7 + 1)}-{number}", f"root-{number % 13}") for number in range(1000)]

    drawn = place(fold(*graph(waits), unfolded=[ALL]))

    places = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(places)) == len(places) == 1013


def test_a_long_chain_needs_no_recursion() -> None:
    nodes, waits = graph([(f"job/{each}", f"job/{each + 1}") for each in range(5000)])

    drawn = place(fold(nodes, waits, unfolded=[ALL]))

    assert [box.group.members[0].name for box in drawn.boxes if box.group.members[0].is_root] == ["job/5000"]
