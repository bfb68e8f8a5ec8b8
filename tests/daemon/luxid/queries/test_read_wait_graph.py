"""ReadWaitGraph: who waits for whom among real jobs (DESIGN section 6, "Explain")."""

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.why import ReadWaitGraph, WaitGraph
from tests.daemon.luxid.ops import after, dummy, gated
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def edges(graph: WaitGraph) -> set[tuple[str, str, str, bool]]:
    names = [node.name for node in graph.nodes]
    return {(names[each.waiter], names[each.holder], each.lock, each.is_over) for each in graph.edges}


def test_locks_dependencies_limits_and_ended_jobs_are_one_graph(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    ended = cluster.submit(dummy())
    cluster.wait(ended)
    root = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(root, status="running")
    middle = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(middle, status="waiting")
    last = cluster.submit(dummy(depends=[*after(middle), *after(ended)]))
    behind = cluster.submit(dummy(depends=after(last)))
    limited = cluster.submit_many(*[(gated(gate) | {"reason": [["gnt:user", "rate-limit:2:disk", 1]]},)] * 4)
    cluster.wait(*limited[:2], status="running")

    wanted = {
        (str(middle), str(root), "node/n1", False),
        (str(last), str(middle), "", False),
        (str(behind), str(last), "", False),
        (str(last), str(ended), "", True),
    }
    wait_until(
        lambda: edges(cluster.luxi(ReadWaitGraph((last,)))) == wanted,
        what="the graph around the job",
        state=lambda: cluster.luxi(ReadWaitGraph((last,))),
    )
    at_limit = cluster.luxi(ReadWaitGraph((limited[3],)))
    assert edges(at_limit) == {(str(limited[3]), "2:disk", "", False)}
    (gate_node,) = (node for node in at_limit.nodes if node.limit is not None)
    assert (gate_node.used, gate_node.limit, gate_node.more_behind) == (2, 2, 1)

    everybody = cluster.luxi(ReadWaitGraph())
    assert edges(everybody) >= wanted
    assert not everybody.is_full
    gate.touch()


def test_the_root_is_there_however_small_the_graph_is(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    root = last = cluster.submit(gated(gate))
    cluster.wait(root, status="running")
    for _ in range(20):
        last = cluster.submit(dummy(depends=after(last)))

    graph = cluster.luxi(ReadWaitGraph((last,), 2))

    assert [node.name for node in graph.nodes] == [str(last), str(root)]
    assert [(each.waiter, each.holder, each.skipped) for each in graph.edges] == [(0, 1, 19)]
    assert [node.more_ahead for node in graph.nodes] == [0, 0]
    assert graph.is_full
    gate.touch()


@pytest.mark.parametrize("most", [-1, 1, 2001])
def test_a_graph_of_a_wrong_size_is_refused(cluster: Cluster, most: int) -> None:
    with pytest.raises(RemoteError, match="a graph has at most 2000 nodes, and at least 2"):
        cluster.luxi(ReadWaitGraph((), most))


def test_jobs_that_do_not_live_are_left_out(cluster: Cluster) -> None:
    assert cluster.luxi(ReadWaitGraph((JobId(999),))) == WaitGraph()
