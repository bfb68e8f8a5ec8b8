"""The kernel's queue of events overflows: everything is looked at, and nothing is missed (DESIGN section 3, 6)."""

from pathlib import Path

import attrs
import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from common.settings import LuxidSettings
from common.system.watch import EventKind
from daemons.luxid.files.store import open_store
from daemons.luxid.parts import JobParts
from daemons.luxid.watching import ChangedFiles, FolderEvents, QueueWatch
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


async def test_a_change_whose_event_was_lost_is_found_after_the_overflow(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    watch = QueueWatch(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        parts = JobParts.make(store, LuxidSettings())
        jobs = parts.jobs
        job = Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.RUNNING),))
        jobs.table.put(job)
        jobs.queue.adopt(job)
        ended = attrs.evolve(job, ops=(attrs.evolve(job.ops[0], state=JobState.SUCCESS),))
        await store.save(ended)
        # the kernel tells of the rename; that is the event which is lost
        watch._queue.take()
        assert jobs.phase(JobId(1)) is not None
        files = ChangedFiles(jobs, store, parts.scheduler, nursery)
        tell = FolderEvents(files.replaced, files.logs_grew, lambda _: None, overflow=files.look_at_all)
        nursery.start_soon(files.run)
        nursery.start_soon(watch.follow_jobs, tell)
        watch._queue.deliver("", EventKind.OVERFLOW)

        await wait_until_async(lambda: jobs.phase(JobId(1)) is None, what="the end is seen")
        nursery.cancel_scope.cancel()
    watch.close()
    store.close()
