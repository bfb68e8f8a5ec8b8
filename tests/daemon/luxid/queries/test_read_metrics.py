"""ReadMetrics of luxid and wconfd: the numbers that a story of real jobs leaves (DESIGN section 15; ours)."""

from pathlib import Path

import pytest

from common.errors import RemoteError
from protocol.luxi.daemon import JobsSoFar, LuxidMetrics, ReadMetrics
from protocol.wconfd.daemon import ReadMetrics as ReadLockMetrics
from tests.daemon.luxid.ops import after, dummy, gated, process_of
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

LOCKS = {"node/n1": "exclusive"}
ON_A = [["gnt:user", "rate-limit:1:a", 1]]


def test_the_numbers_tell_what_jobs_did_and_wait_for(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait(cluster.submit(dummy()), status="success")
    killed = cluster.submit(gated(tmp_path / "never"))
    cluster.wait(killed, status="running")
    cluster.kill_group(process_of(cluster, killed))
    cluster.wait(killed, status="error")
    holder = cluster.submit({**gated(tmp_path / "gate"), "locks": LOCKS, "reason": ON_A})
    cluster.wait(holder, status="running")
    waiter = cluster.submit({**gated(tmp_path / "gate"), "locks": LOCKS})
    cluster.wait(waiter, status="waiting")
    wait_until(lambda: cluster.wconf(ReadLockMetrics()).locks.waiting == 1, what="the job waits for its lock")
    blocked = cluster.submit({**dummy(), "depends": after(holder)})
    with pytest.raises(RemoteError):
        cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": "long"})

    told = cluster.luxi(ReadMetrics())

    assert {status: count for status, count in told.queue.jobs.items() if count} == {
        **{"success": 1, "error": 1, "running": 1, "waiting": 2},
    }
    assert (told.queue.slots, told.queue.slots_taken) == (4, 2)
    assert (told.queue.limits, told.queue.limits_full, told.queue.is_drained) == (1, 1, False)
    assert told.queue.oldest_wait_s > 0
    ended = {"success": 1, "error": 1, "canceled": 0}
    assert told.jobs == JobsSoFar(submitted=5, refused=1, started=4, ended=ended, died=1, backstop_wakeups=0)
    assert told.calls.refused == {"invalid": 1}
    assert told.calls.calls > 10
    assert told.calls.connections >= 1
    check_durations(told)
    assert 0 < told.store.free_bytes < told.store.size_bytes
    assert (told.store.epoch, told.store.nodes_behind) == (0, 0)

    # the lock of the node and that of the cluster; an ended job may hold its own for a moment
    wait_until(lambda: counted_locks(cluster) == (2, 1, 1), what="one job holds", state=lambda: counted_locks(cluster))
    locks = cluster.wconf(ReadLockMetrics())
    assert locks.locks.longest_wait_s > 0
    assert set(locks.files) == {"locks", "config", "reservations"}
    assert locks.files["locks"].write.count > 0
    assert locks.backstop_wakeups == 0

    (tmp_path / "gate").touch()
    cluster.wait(waiter, blocked, status="success")
    after_all = cluster.luxi(ReadMetrics())
    assert after_all.queue.oldest_wait_s == 0
    assert after_all.jobs.ended["success"] == 4
    assert after_all.durations.run["OP_RUN_COMMAND"].count == 3


def counted_locks(cluster: Cluster) -> tuple[int, int, int]:
    """The locks that are held, who hold them, and who wait."""
    locks = cluster.wconf(ReadLockMetrics()).locks
    return locks.held, locks.owners, locks.waiting


def check_durations(told: LuxidMetrics) -> None:
    took = told.durations
    assert took.submission.count == 5
    assert took.queue_delay.count == 4
    assert took.scheduling.count >= 5
    assert took.store_write.count >= 5
    # of the opcodes that have ended: the first one, and the one whose process died
    assert {op_id: run.count for op_id, run in took.run.items()} == {"OP_TEST_DUMMY": 1, "OP_RUN_COMMAND": 1}
    assert took.lock_wait.count == 2
