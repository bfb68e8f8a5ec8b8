"""SetWatcherPause (luxid.md 2.2)."""

import time

import pytest

from common.errors import RemoteError
from protocol.luxi.queries import QueryConfigValues
from protocol.luxi.queue import SetWatcherPause
from tests.support.cluster import Cluster


def pause(cluster: Cluster) -> object:
    return cluster.luxi(QueryConfigValues(("watcher_pause",)))[0]


def test_a_pause_is_a_file_with_its_end_until_it_is_taken_back(cluster: Cluster) -> None:
    until = time.time() + 3600

    answer = cluster.luxi(SetWatcherPause(until))
    during, text = pause(cluster), cluster.paths.watcher_pause.read_text()
    over = cluster.luxi(SetWatcherPause(None))

    assert (answer, over) == (until, None)
    assert (during, text) == (int(until), f"{int(until)}\n")
    assert pause(cluster) is None
    assert not cluster.paths.watcher_pause.exists()


def test_a_watcher_that_is_not_paused_can_be_told_to_go_on(cluster: Cluster) -> None:
    assert cluster.luxi(SetWatcherPause(None)) is None


def test_an_end_that_is_over_is_answered_and_ends_a_pause(cluster: Cluster) -> None:
    cluster.luxi(SetWatcherPause(time.time() + 3600))

    assert cluster.luxi(SetWatcherPause(1.5)) == 1.5

    assert pause(cluster) is None


@pytest.mark.parametrize("until", [-1, 1e300])
def test_an_end_that_no_clock_can_show_is_refused(cluster: Cluster, until: float) -> None:
    with pytest.raises(RemoteError, match="give seconds since the epoch"):
        cluster.luxi(SetWatcherPause(until))

    assert pause(cluster) is None
