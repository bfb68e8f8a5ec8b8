"""The order in which a submission reaches the disk, and what is left of one that is refused."""

import errno
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from common.durable import durably as durably_module
from common.durable.atomicfile import FileWrite
from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.jobs import Job, JobOp
from daemons.luxid.files.store import Store, open_store
from tests.support.fakes.failing import FailingFsync

pytestmark = pytest.mark.trio
OP = JobOp({"OP_ID": "OP_TEST_DUMMY"})


def jobs(*job_ids: int) -> list[Job]:
    return [Job(JobId(job_id), (OP,)) for job_id in job_ids]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    store = open_store(paths)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.files.run)
        yield store
        nursery.cancel_scope.cancel()
    store.close()


def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Renames, removals and fsyncs of folders from now on, in their order."""
    seen: list[str] = []
    real = {name: getattr(os, name) for name in ("rename", "unlink", "fsync")}

    def rename(old: Any, new: Any) -> None:
        seen.append(f"+{os.path.basename(new)}")
        real["rename"](old, new)

    def unlink(path: Any) -> None:
        seen.append(f"-{os.path.basename(path)}")
        real["unlink"](path)

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            seen.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
        real["fsync"](fd)

    for name, call in (("rename", rename), ("unlink", unlink), ("fsync", fsync)):
        monkeypatch.setattr(os, name, call)
    return seen


def key(store: Store) -> FileWrite:
    return FileWrite(store.paths.submissions / "key", b"{}")


async def test_a_key_is_durable_before_its_job_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = steps(monkeypatch)

    await store.add_jobs(jobs(1), [key(store)])

    assert seen == ["+key", "sync submissions", "+serial", "+job-1", "sync queue"]


async def test_a_batch_is_noted_durably_before_its_first_job_and_the_note_goes_after_the_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemons.luxid.files.store._JOBS_AT_ONCE", 2)
    seen = steps(monkeypatch)

    await store.add_jobs(jobs(1, 2, 3), [key(store)])

    before = ["+key", "+batch-1-3", "sync submissions", "+serial", "+job-1", "+job-2", "sync queue"]
    assert seen == [*before, "+job-3", "sync queue", "-batch-1-3"]
    assert [path.name for path in store.paths.submissions.iterdir()] == ["key"]


async def test_a_single_job_without_a_key_pays_nothing_for_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = steps(monkeypatch)

    await store.add_jobs(jobs(1))

    assert seen == ["+serial", "+job-1", "sync queue"]


async def test_of_a_refused_batch_nothing_is_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemons.luxid.files.store._JOBS_AT_ONCE", 2)
    real = os.open

    def no_third(path: Any, flags: int, *rest: int) -> int:
        if "job-3" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        return real(path, flags, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(os, "open", no_third)
        with pytest.raises(Unavailable, match="nothing was submitted"):
            await store.add_jobs(jobs(1, 2, 3), [key(store)])

    assert list(store.paths.submissions.iterdir()) == []
    assert sorted(path.name for path in store.paths.queue.glob("job-*")) == []


async def test_a_note_that_is_not_durable_lets_no_job_begin(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = steps(monkeypatch)
    monkeypatch.setattr(durably_module, "RETRY_S", 0)
    FailingFsync(is_folder=True, failures_left=1).install(monkeypatch)

    with pytest.raises(Unavailable, match="input/output error; nothing was submitted"):
        await store.add_jobs(jobs(1, 2))

    assert not any(step.startswith("+job") for step in seen)
    assert list(store.paths.submissions.iterdir()) == []


async def test_the_drain_flag_is_gone_for_good_when_that_is_answered(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.set_drained(True)
    seen = steps(monkeypatch)
    monkeypatch.setattr(durably_module, "RETRY_S", 0)
    failing = FailingFsync(is_folder=True, failures_left=2).install(monkeypatch)

    await store.set_drained(False)

    assert (seen, failing.failures_left) == (["-drain", "sync queue"], 0)
    assert failing.calls == ["folder"] * 3
