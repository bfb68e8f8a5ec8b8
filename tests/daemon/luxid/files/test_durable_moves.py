"""Files set aside where only a folder cannot be synced: they are moved, and that fsync alone is repeated."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from common.durable import durably as durably_module
from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.files.store import Store, open_store
from tests.support.fakes.failing import FailingFsync, count_renames
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio
JOBS = [JobId(1), JobId(2), JobId(3)]


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(durably_module, "RETRY_S", 0.001)
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        for job_id in JOBS:
            await store.save(Job(job_id, (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.SUCCESS),)))
        yield store
        nursery.cancel_scope.cancel()
    store.close()


async def test_an_archive_whose_folder_cannot_be_synced_is_made_and_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.archive([JOBS[0]])
    # the folder above is made sure of first
    failing = FailingFsync(is_folder=True, failures_left=3, spared=1).install(monkeypatch)
    renames = count_renames(monkeypatch)

    missing = await store.archive([JOBS[1], JobId(99), JOBS[2]])

    assert missing == (99,)
    assert failing.failures_left == 0
    assert renames == ["job-2", "job-99", "job-3"]
    assert all(store.is_archived(job_id) for job_id in JOBS)


async def test_no_file_is_moved_into_a_folder_that_is_not_durable(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingFsync(is_folder=True, failures_left=1).install(monkeypatch)
    renames = count_renames(monkeypatch)

    with pytest.raises(Unavailable, match="the archive cannot be written: input/output error"):
        await store.archive(JOBS)

    assert renames == []
    assert not any(store.is_archived(job_id) for job_id in JOBS)


async def test_a_damaged_file_is_set_aside_though_its_folder_is_synced_late(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=2, spared=1).install(monkeypatch)
    renames = count_renames(monkeypatch)

    await store.set_damaged_aside(JOBS[0])

    assert failing.failures_left == 0
    assert renames == ["job-1"]
    assert (store.paths.damaged / "job-1").exists()


async def test_a_move_that_fails_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def rename(old: Any, new: Any) -> None:
        if os.path.basename(new) == "job-2":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)

    with pytest.raises(Unavailable, match="the archive cannot be written: no space left on device"):
        await store.archive(JOBS)

    assert [store.is_archived(job_id) for job_id in JOBS] == [True, False, False]


async def test_a_daemon_that_is_to_end_does_not_wait_for_a_disk_that_is_unwell(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=10**9, spared=1).install(monkeypatch)

    scope = trio.CancelScope()

    async def cancel_when_it_has_failed() -> None:
        await wait_until_async(lambda: failing.failures_left < 10**9, what="the folder cannot be synced")
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_it_has_failed)
        with scope:
            await store.archive(JOBS)

    # ends the thread
    failing.failures_left = 0
    assert scope.cancelled_caught
    assert all(store.is_archived(job_id) for job_id in JOBS)
