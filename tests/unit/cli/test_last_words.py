"""`gantry down` says who follows the master that it has stopped, and only what is known (DESIGN section 14)."""

import attrs
import pytest

from cli.gantry.cluster.mastership import last_words
from protocol.keeperd import ClusterView
from tests.support.fakes.clusterviews import barred, master, replica, silent

ONE = master("node1", 7)
VIEW = ClusterView(asked="node1", state="master", master="node1", epoch=7, ttl_s=10.0, members=(ONE,))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (VIEW, "there is no other candidate, and no node is the master until this node is up again"),
        (
            attrs.evolve(VIEW, members=(ONE, replica("node2", 7), barred("node3", 7), replica("node4", 7))),
            "another candidate follows it by itself: node2 or node4",
        ),
        (
            attrs.evolve(VIEW, members=(ONE, replica("node2", 7)), maintenance=True),
            "maintenance is on, and nobody follows it by itself; see 'gantry cluster maintenance'",
        ),
        (
            attrs.evolve(VIEW, members=(ONE, barred("node2", 7), silent("node3"), replica("node4", 7, priority=0))),
            "no other candidate can follow it now: node2 is barred, node3 is silent, node4 is "
            "replica, but never the master by itself; see 'gantry cluster' there",
        ),
        (None, "another candidate follows it by itself, if one can; see 'gantry cluster' there"),
    ],
)
def test_only_a_candidate_that_can_is_said_to_follow(view: ClusterView | None, words: str) -> None:
    assert last_words(view, 0) == f"this node was the master: {words}"


def test_jobs_that_are_left_are_told() -> None:
    assert last_words(VIEW, 1).endswith(
        "up again; commands on other nodes go on, jobs that ran on this node itself have failed"
    )
