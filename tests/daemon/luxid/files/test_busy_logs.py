"""Units that log thousands of lines a second: watchers see each at once, at the cost of the lines alone."""

import os
import signal
from typing import Any

import inotify_simple

from common.ids import JobId
from common.queue.jobs import LogEntry
from common.queue.sidefiles import read_all_lines
from daemons.luxid.files.store import JobLogs
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import WaitForJobChange
from tests.daemon.luxid.ops import after, delay, dummy, process_of, read_job
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

LINES = [f"line {number}" for number in range(20_000)]


def follow(cluster: Cluster, job_id: int, count: int) -> list[list[Any]]:
    """Collect log entries as a client does, until there are `count`."""
    entries: list[list[Any]] = []
    values: object = None
    while len(entries) < count:
        serial = entries[-1][0] if entries else None
        values, fresh = cluster.luxi_wire(WaitForJobChange(JobId(job_id), ("status",), values, serial, 60))
        entries += fresh
    return entries


def test_a_watcher_sees_all_lines_in_order_while_the_file_is_hardly_written(cluster: Cluster) -> None:
    with inotify_simple.INotify() as watch:
        watch.add_watch(cluster.paths.queue, inotify_simple.flags.MOVED_FROM)
        job_id = cluster.submit(dummy(messages=LINES), delay(60))

        entries = follow(cluster, job_id, len(LINES))
        writes = [event.name for event in watch.read(timeout=0) if event.name.startswith("job-")]

    assert [entry[3] for entry in entries] == LINES
    assert [entry[0] for entry in entries] == list(range(1, len(LINES) + 1))
    # new, process, running, success, running
    assert len(writes) <= 5


def test_lines_are_seen_while_the_opcode_runs_and_are_in_the_file_afterwards(cluster: Cluster) -> None:
    go = cluster.root / "go"
    wait_for_go = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", f"while ! [ -e {go} ]; do sleep 0.05; done"]}
    job_id = cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 60, "repeat": 1}, wait_for_go)

    assert [entry[3] for entry in follow(cluster, job_id, 1)] == ["delay 1 of 1"]
    assert [line[3] for line in cluster.job(job_id, "oplog")[0][0]] == ["delay 1 of 1"]
    assert read_job(cluster, job_id).ops[0].log == ()

    cluster.luxi(CancelJob(job_id, kill=True))
    cluster.wait(job_id)

    assert [entry.message for entry in read_job(cluster, job_id).ops[0].log] == ["delay 1 of 1"]
    wait_until(lambda: not cluster.paths.job_log(job_id).exists(), what="the lines beside the file are gone")


def test_lines_of_a_process_that_is_killed_are_kept(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(messages=LINES[:1000]), {"OP_ID": "OP_TEST_DELAY", "duration": 60, "repeat": 1})
    wait_until(lambda: len(cluster.job(job_id, "oplog")[0][1]) == 1, what="the second opcode has said something")

    os.killpg(process_of(cluster, job_id), signal.SIGKILL)

    assert cluster.wait(job_id) == ["error"]
    first, second = read_job(cluster, job_id).ops
    assert len(first.log) == 1000
    assert [entry.message for entry in second.log] == ["delay 1 of 1"]


def test_a_restarted_luxid_goes_on_with_the_lines(cluster: Cluster) -> None:
    job_id = cluster.submit({"OP_ID": "OP_TEST_DELAY", "duration": 60, "repeat": 1})
    follow(cluster, job_id, 1)

    cluster.restart("luxid")

    assert [entry[3] for entry in follow(cluster, job_id, 1)] == ["delay 1 of 1"]


def test_lines_of_a_continued_job_are_in_order(cluster: Cluster) -> None:
    head = cluster.submit(delay(0.3))
    job_id = cluster.submit(dummy(messages=LINES[:100]), dummy(messages=LINES[:50], depends=after(head)))

    assert cluster.wait(job_id) == ["success"]
    log = [entry for op in read_job(cluster, job_id).ops for entry in op.log]
    assert [entry.serial for entry in log] == list(range(1, 151))
    assert [entry.message for entry in log] == LINES[:100] + LINES[:50]


def test_left_over_lines_of_ended_jobs_are_removed_at_the_start(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy())
    cluster.wait(job_id)
    cluster.kill("luxid")
    cluster.paths.job_log(job_id).write_bytes(b"")
    cluster.paths.job_log(99).write_bytes(b"")

    cluster.start("luxid")

    assert list(cluster.paths.job_logs.iterdir()) == []


def test_reading_on_costs_what_is_new(cluster: Cluster) -> None:
    """Nothing of a log is kept in luxid's memory but where to read on."""
    job_id = cluster.submit(dummy(messages=LINES, fail=None), delay(60))
    follow(cluster, job_id, len(LINES))
    path, logs = cluster.paths.job_log(job_id), JobLogs(cluster.paths)
    job = read_job(cluster, job_id)
    bare = type(job)(job.job_id, tuple(type(op)(op.input) for op in job.ops))
    read: list[LogEntry] = []

    while fresh := logs.newer(bare, read[-1].serial if read else 0):
        read += fresh

    assert [entry.message for entry in read] == LINES
    assert len(logs._marks[job_id]) <= 2 + path.stat().st_size // 2**20
    assert len(read_all_lines(path)) == len(LINES)
