"""ReadMetrics of luxid and wconfd: the numbers that a story of real jobs leaves (DESIGN section 15; ours)."""

from pathlib import Path

import pytest

from common.errors import RemoteError
from common.queue.terms import JobTerms, terms_entry
from protocol.luxi.daemon import ReadMetrics
from protocol.metrics import DaemonMetrics
from protocol.wconfd.daemon import ReadWconfdMetrics as ReadLockMetrics
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
    wait_until(lambda: counted_locks(cluster)[2] == 1, what="the job waits for its lock")
    blocked = cluster.submit({**dummy(), "depends": after(holder)})
    with pytest.raises(RemoteError):
        cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": "long"})

    told = cluster.luxi(ReadMetrics())

    assert {status: count for status, count in told.by("jobs").items() if count} == {
        **{"success": 1, "error": 1, "running": 1, "waiting": 2},
    }
    assert numbers(told, "job_slots", "job_slots_taken") == (4, 2)
    assert numbers(told, "limits_in_use", "limits_full", "queue_drained") == (1, 1, 0)
    assert told.number("oldest_wait_seconds") > 0
    assert numbers(told, "jobs_submitted", "jobs_refused", "job_starts", "job_deaths") == (5, 1, 4, 1)
    assert told.by("jobs_ended") == {"success": 1, "error": 1, "canceled": 0}
    assert numbers(told, "backstop_wakeups", "notices_given_up", "jobs_removed", "schedule_runs") == (0, 0, 0, 0)
    assert told.by("calls_refused") == {"invalid": 1}
    assert told.number("calls") > 10
    assert told.number("connections") >= 1
    check_durations(told)
    assert 0 < told.number("queue_disk_free_bytes") < told.number("queue_disk_size_bytes")
    assert numbers(told, "master_epoch", "candidates_behind") == (0, 0)

    # the lock of the node and that of the cluster; an ended job may hold its own for a moment
    wait_until(lambda: counted_locks(cluster) == (2, 1, 1), what="one job holds", state=lambda: counted_locks(cluster))
    locks = cluster.wconf(ReadLockMetrics())
    assert locks.number("longest_lock_wait_seconds") > 0
    assert set(locks.by("state_changes")) == {"locks", "config", "reservations"}
    assert locks.distribution("store_write_seconds", "wconfd", "locks").count > 0
    assert locks.number("backstop_wakeups") == 0

    (tmp_path / "gate").touch()
    cluster.wait(waiter, blocked, status="success")
    after_all = cluster.luxi(ReadMetrics())
    assert after_all.number("oldest_wait_seconds") == 0
    assert after_all.by("jobs_ended")["success"] == 4
    assert after_all.distribution("opcode_run_seconds", "OP_RUN_COMMAND").count == 3


def numbers(told: DaemonMetrics, *names: str) -> tuple[float, ...]:
    return tuple(map(told.number, names))


def counted_locks(cluster: Cluster) -> tuple[float, ...]:
    """The locks that are held, who hold them, and who wait."""
    return numbers(cluster.wconf(ReadLockMetrics()), "locks_held", "lock_owners", "lock_requests_waiting")


def check_durations(told: DaemonMetrics) -> None:
    assert told.distribution("submission_seconds").count == 5
    assert told.distribution("queue_delay_seconds").count == 4
    assert told.distribution("scheduling_seconds").count >= 5
    assert told.distribution("store_write_seconds", "luxid", "queue").count >= 5
    # of the opcodes that have ended: the first one, and the one whose process died
    for op_id in ("OP_TEST_DUMMY", "OP_RUN_COMMAND"):
        assert told.distribution("opcode_run_seconds", op_id).count == 1
    assert told.distribution("lock_wait_seconds").count == 2


def test_delays_of_starts_are_counted_by_a_label_and_while_they_last(tmp_path: Path) -> None:
    settings = '[luxid]\nmax_running_jobs = 1\nmetrics_label = "team"\nstart_goal_s = 0.2\n'
    with Cluster(tmp_path / "c", settings=settings) as cluster:
        cluster.start("wconfd", "forkserver", "luxid")
        first = cluster.submit({**gated(tmp_path / "gate"), "reason": of_team("web")})
        cluster.wait(first, status="running")
        second = cluster.submit({**dummy(), "reason": of_team("db")})

        wait_until(lambda: cluster.luxi(ReadMetrics()).number("jobs_delayed") == 1, what="the second job is delayed")
        (tmp_path / "gate").touch()
        cluster.wait(first, second, status="success")

        told = cluster.luxi(ReadMetrics())
        assert told.number("jobs_delayed") == 0
        web, db = (told.distribution("start_delay_seconds", team) for team in ("web", "db"))
        assert (web.count, web.total, db.count) == (1, 0.0, 1)
        assert db.total >= 0.2
        assert told.distribution("start_delay_seconds").count == 2


def of_team(name: str) -> list[object]:
    return [terms_entry(JobTerms(labels={"team": name}), 0).to_wire()]
