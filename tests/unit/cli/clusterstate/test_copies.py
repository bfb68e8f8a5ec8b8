"""The words about copies on other nodes."""

import pytest

from cli.clusterstate.problems import status_words
from protocol.luxi.daemon import QueueVerdict

SAME, DIFFERS, OPEN = QueueVerdict("n1", 1.0), QueueVerdict("n2", 1.0, 2, ("job-1", "job-2")), QueueVerdict("n3")


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([SAME], "same on 1 node when last compared"),
        ([SAME, DIFFERS], "differed on n2 when last compared ('gnt-cluster verify' compares anew)"),
        ([DIFFERS] * 4, "differed on 4 nodes when last compared ('gnt-cluster verify' compares anew)"),
        ([SAME, OPEN], "same on 1 node when last compared; not compared with 1 node"),
        ([OPEN, OPEN], "not compared with 2 nodes"),
    ],
)
def test_the_status_is_short_and_names_nodes_that_differed(verdicts: list[QueueVerdict], words: str) -> None:
    assert status_words(verdicts) == words
