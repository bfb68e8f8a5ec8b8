"""A file that a job process has put in place counts when it is durable, and is not reported before.

Source: DESIGN section 3, invariant 3.
"""

import itertools
import os
import stat
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from common.durable import groupcommit
from common.durable.atomicfile import FileWrite, stage_files
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from common.settings import LuxidSettings
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.files.loading import FoundJob, load_queue
from daemons.luxid.files.store import open_store
from daemons.luxid.jobs import LiveJobs
from daemons.luxid.parts import JobParts
from daemons.luxid.watching import ChangedFiles
from tests.support.fakes.failing import FailingFsync
from tests.support.starting import deaths_of
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio
RUNS = Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.RUNNING),), livelock="/nowhere/1")
ENDED = attrs.evolve(RUNS, ops=(attrs.evolve(RUNS.ops[0], state=JobState.SUCCESS),))


class Gate:
    """The fsync of any folder waits until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached = threading.Event()
        self.may_go = threading.Event()
        self.passed = 0
        self._real = os.fsync
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self.is_reached.set()
            assert self.may_go.wait(PATIENCE_S)
            self.passed += 1
        self._real(fd)


@attrs.frozen
class Luxid:
    parts: JobParts
    jobs: LiveJobs
    files: ChangedFiles
    nursery: trio.Nursery
    paths: Paths

    def write_without_sync(self, *jobs: Job) -> None:
        """As a job process does before it syncs the folder."""
        for job in jobs:
            [(temp, write)] = stage_files([FileWrite(self.paths.job_file(job.job_id), encode_job(job))])._temps
            os.rename(temp, write.path)

    def is_seen(self, job_id: int = 1) -> bool:
        return self.jobs.phase(JobId(job_id)) is None


@pytest.fixture
async def luxid(tmp_path: Path) -> AsyncIterator[Luxid]:
    """The parts that follow job files; job 1 runs."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        parts = JobParts.make(store, LuxidSettings())
        parts.scheduler.recover([FoundJob(RUNS, Fate.ALIVE)])
        files = ChangedFiles(parts.jobs, store, parts.scheduler, nursery)
        nursery.start_soon(files.run)
        yield Luxid(parts, parts.jobs, files, nursery, paths)
        nursery.cancel_scope.cancel()
    store.close()


async def test_an_end_is_told_when_the_folder_is_synced_and_not_before(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    told = []
    with luxid.jobs.changes.listen(JobId(1)) as broadcast:
        luxid.write_without_sync(ENDED)
        ring = broadcast.next_notice
        luxid.files.replaced([JobId(1)])
        await wait_until_async(gate.is_reached.is_set, what="the folder is being synced")
        await trio.testing.wait_all_tasks_blocked()
        told.append((ring.is_set(), luxid.is_seen(), gate.passed))
        gate.may_go.set()
        await ring.wait()
        told.append((ring.is_set(), luxid.is_seen(), gate.passed))

    assert told == [(False, False, 0), (True, True, 1)]


async def test_all_that_was_replaced_meanwhile_shares_the_next_fsync(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [attrs.evolve(RUNS, job_id=JobId(number), livelock=f"/nowhere/{number}") for number in range(2, 22)]
    for job in others:
        luxid.jobs.table.put(job)
        luxid.jobs.queue.adopt(job)
    gate = Gate(monkeypatch)
    luxid.write_without_sync(ENDED, *(attrs.evolve(job, ops=ENDED.ops) for job in others))
    luxid.files.replaced([JobId(1)])
    await wait_until_async(gate.is_reached.is_set, what="the folder is being synced")
    for job in others:
        luxid.files.replaced([job.job_id])
    gate.may_go.set()

    await luxid.files.take_in()

    assert all(luxid.is_seen(number) for number in range(1, 22))
    assert gate.passed == luxid.parts.store.files.folder.fsyncs == 2


@pytest.fixture
def reads(luxid: Luxid, monkeypatch: pytest.MonkeyPatch) -> list[JobId]:
    """Reading takes 10 ms of CPU, as of a job of thousands of opcodes; the jobs whose files were read."""
    clock = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(clock) / 100)
    found: list[JobId] = []
    real = luxid.parts.store.read_job

    def read(job_id: JobId) -> Job:
        found.append(job_id)
        return real(job_id)

    monkeypatch.setattr(luxid.parts.store, "read_job", read)
    return found


async def test_a_large_file_is_not_read_at_each_step_but_its_end_is_seen(luxid: Luxid, reads: list[JobId]) -> None:
    for step in range(20):
        luxid.write_without_sync(attrs.evolve(RUNS, start_at=(step, 0)))
        luxid.files.replaced([JobId(1)])
        await trio.sleep(0.001)
    assert len(reads) <= 2

    luxid.write_without_sync(ENDED)
    luxid.files.replaced([JobId(1)])

    await wait_until_async(luxid.is_seen, what="the end is taken in")
    assert len(reads) <= 3


async def test_who_asks_for_all_changes_waits_for_no_rest(luxid: Luxid, reads: list[JobId]) -> None:
    for step in range(3):
        luxid.write_without_sync(changed := attrs.evolve(RUNS, start_at=(step, 0)))
        luxid.files.replaced([JobId(1)])

        await luxid.files.take_in()

        assert luxid.jobs.unended(JobId(1)).start_at == changed.start_at
    assert len(reads) == 3


async def test_news_wake_their_reader_after_somebody_has_asked_while_there_were_none(luxid: Luxid) -> None:
    await trio.testing.wait_all_tasks_blocked()
    await luxid.files.take_in()

    luxid.write_without_sync(ENDED)
    luxid.files.replaced([JobId(1)])

    await wait_until_async(luxid.is_seen, what="the end is taken in")


async def test_an_end_is_held_while_the_folder_cannot_be_synced(luxid: Luxid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupcommit, "RETRY_S", 0)
    failing = FailingFsync(is_folder=True, failures_left=3).install(monkeypatch)
    luxid.write_without_sync(ENDED)
    luxid.files.replaced([JobId(1)])

    await luxid.files.take_in()

    assert (failing.failures_left, len(failing.calls)) == (0, 5)
    assert luxid.is_seen()


async def test_news_whose_taking_in_was_cancelled_is_not_lost(luxid: Luxid, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    luxid.write_without_sync(ENDED)
    with trio.CancelScope() as scope:
        luxid.files.replaced([JobId(1)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(luxid.files.take_in)
            await wait_until_async(gate.is_reached.is_set, what="the folder is being synced")
            scope.cancel()
            gate.may_go.set()

    await wait_until_async(luxid.is_seen, what="the end is seen all the same")


async def test_the_end_of_a_job_whose_process_died_right_after_the_rename_is_synced_before_it_counts(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = deaths_of(luxid.parts, luxid.nursery)
    luxid.nursery.start_soon(deaths.run)
    gate = Gate(monkeypatch)
    luxid.write_without_sync(ENDED)

    luxid.jobs.processes.suspect(JobId(1))
    await wait_until_async(gate.is_reached.is_set, what="the folder is being synced")
    assert luxid.jobs.phase(JobId(1)) is Phase.HELD
    gate.may_go.set()

    await wait_until_async(luxid.is_seen, what="the end is seen")
    assert luxid.jobs.table.get(JobId(1)) == ENDED


async def test_a_process_that_ends_while_its_end_is_being_synced_is_not_found_dead(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = deaths_of(luxid.parts, luxid.nursery)
    luxid.nursery.start_soon(deaths.run)
    gate = Gate(monkeypatch)
    luxid.write_without_sync(ENDED)
    luxid.files.replaced([JobId(1)])
    await wait_until_async(gate.is_reached.is_set, what="the folder is being synced")

    luxid.jobs.processes.suspect(JobId(1))
    await deaths.settle(RUNS)
    await trio.testing.wait_all_tasks_blocked()
    assert luxid.jobs.phase(JobId(1)) is Phase.RUNNING
    gate.may_go.set()

    await wait_until_async(luxid.is_seen, what="the end is seen")
    assert gate.passed == luxid.parts.store.files.folder.fsyncs == 1


async def test_a_queue_that_is_taken_over_is_synced_before_anything_is_told_of_it(
    luxid: Luxid, monkeypatch: pytest.MonkeyPatch
) -> None:
    luxid.write_without_sync(ENDED)
    gate = Gate(monkeypatch)
    gate.may_go.set()

    found = load_queue(luxid.paths)

    assert [each.job for each in found.jobs] == [ENDED]
    assert gate.passed == 1
