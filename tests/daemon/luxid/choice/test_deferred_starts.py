"""Deferred jobs begin by the clock, and many jobs are changed together: luxid's parts in this process, a real disk.

Source: DESIGN section 16.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from common.durable.atomicfile import FileWrite, write_files
from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobState, OpEvent, end_job
from common.queue.terms import JobTerms, with_terms
from common.settings import LuxidSettings
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.jobs import CHANGES_AT_ONCE
from daemons.luxid.parts import JobParts
from tests.support.deferred import HELD, SetClock, deferred_job, stated

pytestmark = pytest.mark.trio
MANY = 800


class Disk:
    """Counts writes; refuses one file."""

    def __init__(self) -> None:
        self.groups = self.files = 0
        self.refused = ""

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        if any(write.path.name == self.refused for write in writes):
            raise OSError(28, "No space left on device")
        self.groups += 1
        self.files += len(writes)
        write_files(writes)


class Luxid:
    def __init__(self, store: Store, clock: SetClock, disk: Disk) -> None:
        self.parts = JobParts.make(store, LuxidSettings(), clock=clock)
        self.store, self.clock, self.disk = store, clock, disk
        self.started: list[int] = []

    async def start(self, job_id: JobId) -> None:
        self.started.append(job_id)

    def phase(self, job_id: int) -> Phase | None:
        return self.parts.jobs.phase(JobId(job_id))


@asynccontextmanager
async def luxid_under(root: Path) -> AsyncGenerator[Luxid, None]:
    paths = Paths.under_root(root)
    paths.make_folders()
    disk, clock = Disk(), SetClock(1000.0)
    store = open_store(paths, QueueFiles(paths, write=disk))
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        luxid = Luxid(store, clock, disk)
        luxid.parts.begin(nursery, luxid.start)
        yield luxid
        nursery.cancel_scope.cancel()
    store.close()


def begins(job_id: int, at: float) -> Job:
    return deferred_job(job_id, stated(JobTerms(begin_at=at)))


async def test_a_job_starts_when_the_clock_shows_its_instant_and_nothing_polls(tmp_path: Path) -> None:
    async with luxid_under(tmp_path) as luxid:
        luxid.parts.scheduler.add([begins(1, 1060.0), begins(2, 1030.0), deferred_job(3, stated(HELD))])
        await trio.testing.wait_all_tasks_blocked()
        assert luxid.started == []

        luxid.clock.pass_until(1029.9)
        await trio.testing.wait_all_tasks_blocked()
        assert luxid.started == []
        luxid.clock.pass_until(1030.0)
        await trio.testing.wait_all_tasks_blocked()
        assert luxid.started == [2]
        luxid.clock.pass_until(1e9)
        await trio.testing.wait_all_tasks_blocked()

        assert luxid.started == [2, 1]
        # one setting for each instant, none for the job that waits for a word
        assert luxid.clock.alarms == [None, 1030.0, None, 1060.0, None]


async def test_a_clock_set_forward_starts_what_is_due_and_one_set_back_defers_nothing_again(tmp_path: Path) -> None:
    async with luxid_under(tmp_path) as luxid:
        luxid.parts.scheduler.obstruct("a test")
        luxid.parts.scheduler.add([begins(1, 5000.0), begins(2, 9000.0)])
        luxid.clock.set(5000.0)
        await trio.testing.wait_all_tasks_blocked()

        luxid.clock.set(10.0)
        await trio.testing.wait_all_tasks_blocked()

        assert (luxid.phase(1), luxid.phase(2)) == (Phase.READY, Phase.DEFERRED)
        assert luxid.clock.alarms[-1] == 9000.0
        luxid.clock.pass_until(9000.0)
        await trio.testing.wait_all_tasks_blocked()
        assert luxid.phase(2) is Phase.READY


async def test_many_jobs_end_in_few_groups_of_writes_and_none_of_them_starts_meanwhile(tmp_path: Path) -> None:
    async with luxid_under(tmp_path) as luxid:
        luxid.parts.scheduler.add(deferred_job(number, []) for number in range(1, MANY + 1))
        await trio.testing.wait_all_tasks_blocked()
        begun = list(luxid.started)
        waiting = [JobId(number) for number in range(1, MANY + 1) if luxid.phase(number) is Phase.READY]

        ended = await luxid.parts.rewriting.change_all(
            waiting, lambda job: end_job(job, OpEvent.CANCELED, (1000, 0), [None])
        )

        assert len(ended) == len(waiting) > MANY - 100
        assert luxid.disk.files == len(waiting)
        assert luxid.disk.groups <= len(waiting) // CHANGES_AT_ONCE + 2
        assert luxid.started == begun
        assert {luxid.store.read_job(job_id).state for job_id in waiting} == {JobState.CANCELED}


async def test_a_job_that_the_disk_refuses_is_unchanged_and_the_others_are_changed(tmp_path: Path) -> None:
    async with luxid_under(tmp_path) as luxid:
        luxid.parts.scheduler.add(deferred_job(number, stated(HELD)) for number in (1, 2, 3))
        luxid.disk.refused = "job-2"

        found = await luxid.parts.rewriting.change_all(
            [JobId(1), JobId(2), JobId(3)], lambda job: with_terms(job, JobTerms(begin_at=9e9), 1)
        )

        assert [isinstance(each, GantryError) for each in found.values()].count(True) == 1
        assert isinstance(found[JobId(2)], Unavailable)
        assert [luxid.phase(number) for number in (1, 2, 3)] == [Phase.DEFERRED] * 3
        assert luxid.parts.jobs.queue.begins_at() == 9e9


async def test_who_goes_away_leaves_the_jobs_that_were_not_begun_in_the_queue(tmp_path: Path) -> None:
    async with luxid_under(tmp_path) as luxid:
        luxid.parts.scheduler.obstruct("a test")
        luxid.parts.scheduler.add(deferred_job(number, []) for number in range(1, MANY + 1))
        everything = [JobId(number) for number in range(1, MANY + 1)]

        with trio.CancelScope() as scope:
            scope.cancel()
            await luxid.parts.rewriting.change_all(
                everything, lambda job: end_job(job, OpEvent.CANCELED, (1000, 0), [None])
            )

        counts = luxid.parts.jobs.queue.counts()
        assert scope.cancelled_caught
        assert counts.held == 0
        assert 0 < counts.ready < MANY
        assert counts.ready + luxid.disk.files == MANY
