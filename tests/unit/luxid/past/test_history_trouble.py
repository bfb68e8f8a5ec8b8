"""The history while the disk refuses rows, and when more jobs end than it keeps (DESIGN section 16)."""

import contextlib
import errno
import itertools
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid import outboxes
from daemons.luxid.core.past.queries import Eyes
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.files.store import Store, open_store
from daemons.luxid.history import upkeep
from daemons.luxid.history.index import DamagedIndex, PastIndex, read_list, set_aside
from daemons.luxid.history.upkeep import PastHistory, read_rows
from daemons.luxid.jobs import JobTable, LiveJobs
from daemons.luxid.processes.jobprocesses import JobProcesses, KillMessages, PriorityMessages
from protocol.luxi.history import EndedJobs, ReadHistory
from tests.support.wait import wait_until, wait_until_async

pytestmark = pytest.mark.trio


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    yield store
    store.close()


def _jobs(store: Store) -> LiveJobs:
    queue = JobQueue(1, 1, store.archived_state)
    return LiveJobs(
        queue, JobTable(store.find_live), JobProcesses(KillMessages(store.paths), PriorityMessages(store.paths))
    )


def _end(jobs: LiveJobs, store: Store, number: int) -> None:
    jobs.endings.ended(_put_ended(jobs, store, number))


def _put_ended(jobs: LiveJobs, store: Store, number: int) -> Job:
    """A job that ended before the start."""
    job = Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, JobState.SUCCESS),), (1, 0), (1, 0), (2, 0))
    store.paths.job_file(number).write_bytes(encode_job(job))
    jobs.table.put(job)
    jobs.queue.end(job.job_id, job.state)
    return job


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads work in real time, so pauses are short instead of jumped over."""
    monkeypatch.setattr(upkeep, "GATHER_S", 0.01)
    monkeypatch.setattr(upkeep, "retry_pauses", lambda: itertools.repeat(0.01))


async def _until_read(history: PastHistory, ids: list[int]) -> None:
    async def has_all() -> bool:
        with contextlib.suppress(Unavailable):
            reply = await _read(history)
            return ([job.id for job in reply.jobs], reply.unread) == (ids, 0)
        return False

    await wait_until_async(has_all, what=f"the history has {ids}")


async def _read(history: PastHistory) -> EndedJobs:
    return await history.read(ReadHistory(), Eyes(None))


async def test_a_disk_that_refuses_rows_loses_none_and_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = _jobs(store)
    history, add, is_full = PastHistory(store.paths, jobs), PastIndex.add, False

    def refusing(index: PastIndex, rows: object) -> None:
        if is_full:
            raise sqlite3.OperationalError("database or disk is full")
        add(index, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(PastIndex, "add", refusing)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        await history.until_complete()
        is_full = True
        _end(jobs, store, 1)
        _end(jobs, store, 2)

        reply = await _read(history)
        assert (reply.jobs, reply.unread) == ((), 2)

        is_full = False
        await _until_read(history, [2, 1])
        nursery.cancel_scope.cancel()


async def test_what_ends_beyond_what_it_keeps_is_read_from_the_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "MOST", 3)
    jobs = _jobs(store)
    history = PastHistory(store.paths, jobs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        await history.until_complete()
        for number in range(1, 9):
            _end(jobs, store, number)

        await _until_read(history, [8, 7, 6, 5, 4, 3, 2, 1])
        nursery.cancel_scope.cancel()


async def test_what_was_read_before_the_last_rows_came_does_not_count_as_complete(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = _jobs(store)
    _put_ended(jobs, store, 1)
    history, is_read = PastHistory(store.paths, jobs), threading.Event()

    def rows_later(*args: Any) -> Any:
        assert is_read.wait(10)
        return read_rows(*args)

    def list_earlier(*args: Any) -> Any:
        found = read_list(*args)
        is_read.set()
        wait_until(lambda: history.is_complete, what="the row has come")
        return found

    monkeypatch.setattr(upkeep, "read_rows", rows_later)
    monkeypatch.setattr(upkeep, "read_list", list_earlier)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)

        reply = await _read(history)

        assert (reply.jobs, reply.unread) == ((), 1)
        await _until_read(history, [1])
        nursery.cancel_scope.cancel()


async def test_an_index_that_cannot_be_opened_is_tried_again(store: Store) -> None:
    store.paths.history.mkdir()
    jobs = _jobs(store)
    history = PastHistory(store.paths, jobs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        _end(jobs, store, 1)
        with pytest.raises(Unavailable, match="the history is not open yet"):
            await _read(history)
        assert not history.is_complete

        store.paths.history.rmdir()

        await _until_read(history, [1])
        nursery.cancel_scope.cancel()


async def test_a_damaged_index_that_cannot_be_set_aside_does_not_end_luxid(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.paths.history.write_bytes(b"no index at all " * 500)
    refusals = iter(range(3))

    def refusing(path: Path) -> Path:
        for _ in refusals:
            raise OSError(errno.EROFS, "Read-only file system")
        return set_aside(path)

    monkeypatch.setattr(upkeep, "set_aside", refusing)
    jobs = _jobs(store)
    history = PastHistory(store.paths, jobs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        _end(jobs, store, 1)

        await _until_read(history, [1])
        nursery.cancel_scope.cancel()


async def test_a_late_reader_of_an_index_that_was_set_aside_does_not_doubt_the_new_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, goes_on, asides = PastHistory(store.paths, _jobs(store)), threading.Event(), list[Path]()
    is_reading, has_read = trio.Event(), trio.Event()

    def damaged(*_: object) -> object:
        if not is_reading.is_set():
            trio.from_thread.run_sync(is_reading.set)
            goes_on.wait()
        raise DamagedIndex("database disk image is malformed")

    def counted(path: Path) -> Path:
        asides.append(path)
        return set_aside(path)

    async def read() -> None:
        with pytest.raises(Unavailable):
            await _read(history)
        has_read.set()

    monkeypatch.setattr(upkeep, "read_list", damaged)
    monkeypatch.setattr(upkeep, "set_aside", counted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        await history.until_complete()
        nursery.start_soon(read)
        await is_reading.wait()
        with pytest.raises(Unavailable):
            await _read(history)

        async def is_new() -> bool:
            return len(asides) == 1 and history.is_complete

        await wait_until_async(is_new, what="there is a new index")
        goes_on.set()
        await has_read.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)

        assert history.is_complete
        assert len(asides) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("why", ["luxid ends", "the index is damaged"])
async def test_it_is_closed_when_no_thread_uses_it(store: Store, why: str) -> None:
    """SQLite frees what another thread is reading: this process would crash."""
    history = PastHistory(store.paths, _jobs(store))
    is_working, goes_on, has_read = trio.Event(), threading.Event(), trio.Event()
    ends = trio.CancelScope()

    async def run() -> None:
        with ends:
            await history.run()

    def look(index: PastIndex) -> list[int]:
        trio.from_thread.run_sync(is_working.set)
        goes_on.wait()
        return index.folders(1000)

    async def use() -> None:
        assert await history.change(look) == []
        has_read.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await history.until_complete()
        nursery.start_soon(use)
        await is_working.wait()
        if why == "luxid ends":
            ends.cancel()
        else:
            await _damage_found(history, store)
        await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
        await has_read.wait()
        ends.cancel()


async def _damage_found(history: PastHistory, store: Store) -> None:
    """Let a reader find that somebody has taken the index away."""
    store.paths.history.unlink()
    with pytest.raises(Unavailable):
        await _read(history)

    async def is_known() -> bool:
        return not history.is_complete

    await wait_until_async(is_known, what="the history knows it")
