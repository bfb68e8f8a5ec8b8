"""The line about the cluster: its master, its epoch, what candidates lack, and what is wrong with etcd (DESIGN 14)."""

import pytest

from common.metrics import read
from daemons.luxid.core.copies.etcdroom import CommitsNow
from daemons.luxid.handlers.health import QueueNow, StoreNow
from daemons.rapid.page.reading import health_of
from daemons.rapid.page.templates import draw
from daemons.rapid.page.views.frame import Frame
from protocol.metrics import DaemonMetrics

QUIET, FINE = StoreNow(), CommitsNow()
BEHIND = StoreNow(nodes_behind=2, lag_files=30, lag_s=12.0, epoch=7)


def line(store: StoreNow = QUIET, commits: CommitsNow = FINE, orphans: int = 0) -> str:
    metrics = DaemonMetrics(families=tuple(read(QueueNow(), store, commits)))
    health = health_of("alpha", "node2", metrics, orphans, is_copied=True)
    frame = Frame("/ui", "auto", "", "ada", "admin", False, health)
    return " ".join(draw("parts/health", frame=frame).split())


def test_it_tells_master_epoch_lag_and_orphaned_locks() -> None:
    text = line(BEHIND, orphans=3)

    assert "master <b>node2</b>" in text
    assert "epoch <b>7</b>" in text
    assert "2 behind by 30 files" in text
    assert 'orphaned locks</a> <span class="bad">3</span>' in text
    assert "etcd" not in text


@pytest.mark.parametrize(
    ("commits", "told"),
    [
        (CommitsNow(is_full=True), 'etcd <span class="bad">is full: no job is taken</span>'),
        (CommitsNow(silent_s=4.2), 'etcd <span class="bad">has not replied for 4'),
    ],
)
def test_it_tells_what_is_wrong_with_etcd(commits: CommitsNow, told: str) -> None:
    assert told in line(commits=commits)


@pytest.mark.parametrize("commits", [FINE, CommitsNow(silent_s=0.5)])
def test_nothing_is_said_of_an_etcd_that_replies(commits: CommitsNow) -> None:
    assert "etcd" not in line(commits=commits)
    assert "orphaned" not in line(commits=commits)
