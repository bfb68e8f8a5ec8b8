"""Many jobs that end by one event do not keep other callers waiting (DESIGN section 6)."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

from common.durable.atomicfile import FileWrite, write_files
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from common.settings import LuxidSettings
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.files.store import open_store
from daemons.luxid.jobs import ENDS_AT_ONCE
from daemons.luxid.parts import JobParts
from tests.support.filterrules import filter_rule
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
MASS = 1000
REJECT = filter_rule(
    watermark=JobId(0),
    priority=0,
    predicates=(),
    action="REJECT",
    reason_trail=(),
    uuid="0" * 8 + "-0000" * 3 + "0" * 13,
)
OP = JobOp({"OP_ID": "OP_TEST_DUMMY"})


class Disk:
    """Writes, and remembers the jobs of each group."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        # how many of the groups are written
        self.written = 0

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        self.groups.append([write.path.name for write in writes])
        write_files(writes)
        self.written += 1

    def place(self, name: str) -> int:
        """The number of the group with this file, from 1 on."""
        return next(place for place, group in enumerate(self.groups, 1) if name in group)


async def never(_: JobId) -> None:
    raise AssertionError("no job is to be started")


@pytest.mark.parametrize("why", ["rejected", "doomed"])
async def test_single_writes_pass_between_the_ends_of_a_thousand_jobs(tmp_path: Path, why: str) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    disk = Disk()
    store = open_store(paths, QueueFiles(paths, write=disk))
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        parts = JobParts.make(store, LuxidSettings())
        scheduler, queue = parts.scheduler, parts.jobs.queue
        scheduler.obstruct("a test")
        parts.begin(nursery, never)
        behind = {"depends": [[MASS + 1, ["success"]]]} if why == "doomed" else {}
        first = Job(JobId(MASS + 1), (OP,))
        scheduler.add([first])
        scheduler.add(Job(JobId(number), (JobOp({**OP.input, **behind}),)) for number in range(1, MASS + 1))
        others: list[int] = []
        tasks: list[int] = []

        if why == "rejected":
            scheduler.install_rules([REJECT])
        else:
            await parts.rewriting.change(
                first.job_id, lambda job: attrs.evolve(job, ops=(attrs.evolve(job.ops[0], state=JobState.CANCELED),))
            )
        number = MASS + 2
        while queue.counts().waiting_to_start:
            written = disk.written
            await store.save(Job(JobId(number), (OP,)))
            others.append(disk.place(f"job-{number}") - written)
            tasks.append(trio.lowlevel.current_statistics().tasks_living)
            number += 1

        await wait_until_async(lambda: not queue.counts().waiting_to_start, what="all have ended")
        states = {store.read_job(JobId(each)).state for each in range(1, MASS + 1)}
        assert states == {JobState.CANCELED}
        # each waits for the group that is being written and its own one, and there is always another one soon
        assert len(others) > MASS // ENDS_AT_ONCE // 4
        assert max(others) <= 2
        assert max(map(len, disk.groups)) <= ENDS_AT_ONCE + 2
        assert max(tasks) < 2 * ENDS_AT_ONCE
        nursery.cancel_scope.cancel()
    store.close()
