"""What luxid reads at its start is not kept beside what it makes of it."""

import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from common.clusterinit import create_cluster
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from common.settings import Settings
from daemons.luxid import main
from daemons.luxid.core.choice.readings import next_needs
from daemons.luxid.files.loading import FoundQueue, load_queue
from daemons.luxid.files.queuefiles import Changes
from tests.support.wait import wait_until_async


@pytest.mark.trio
async def test_the_queue_as_found_is_forgotten_when_luxid_serves(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[weakref.ref[FoundQueue]] = []

    def load(paths: Paths, pause: Callable[[float], None], changes: Changes, *, takes_up: bool) -> FoundQueue:
        queue = load_queue(paths, pause, changes, takes_up=takes_up)
        found.append(weakref.ref(queue))
        return queue

    monkeypatch.setattr(main, "load_queue", load)
    paths = Paths.under_root(tmp_path)
    create_cluster(paths, "cluster.test", "node1.test")

    await nursery.start(main.serve, Settings(paths))
    assert len(found) == 1
    # the thread that read it lets go when it likes
    await wait_until_async(lambda: found[0]() is None, what="the queue as found is forgotten")
    nursery.cancel_scope.cancel()


def test_the_needs_of_many_different_jobs_take_no_page_each() -> None:
    """orjson gives its bytes four kilobytes of room."""
    ops = [{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": f"memory{number}.test"} for number in range(500)]
    jobs = [Job(JobId(number), (JobOp(op),)) for number, op in enumerate(ops, 1)]
    next_needs(jobs[0])

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for job in jobs:
            next_needs(job)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before) / len(jobs) < 2500
