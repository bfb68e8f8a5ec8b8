"""Writes of the queue on a disk that fails, and under a lock that others hold (noded.md 9)."""

import fcntl
import os
import signal
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from common.ids import JobId
from common.paths import Paths
from common.system.livelock import record_lock_holder
from daemons.luxid.files.queuefolder import take_lock
from daemons.noded.files.nodefiles import upload
from daemons.noded.files.queuefiles import FileLock, InUse, QueueFileCopies
from protocol.noded.call import Content
from protocol.noded.files import FileUpload
from tests.support.fakes.failing import FailingFsync
from tests.support.wait import wait_until


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return paths


async def update(files: QueueFileCopies, path: Path, content: bytes) -> None:
    failure: OSError | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(files.run)
        try:
            await files.update(path, content)
        except OSError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@pytest.mark.trio
async def test_a_content_that_the_disk_refuses_fails_and_leaves_the_old_file(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = paths.job_file(JobId(1))
    await update(QueueFileCopies(paths), path, b"old")
    FailingFsync(is_folder=False, failures_left=99).install(monkeypatch)

    with pytest.raises(OSError, match="Input/output error"):
        await update(QueueFileCopies(paths), path, b"new")

    assert path.read_bytes() == b"old"
    assert not list(paths.queue.glob("*.tmp"))


@pytest.mark.trio
async def test_a_folder_that_cannot_be_synced_is_synced_again_before_the_reply(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=1).install(monkeypatch)

    await update(QueueFileCopies(paths), paths.job_file(JobId(1)), b"new")

    assert failing.calls == ["file", "folder", "folder"]
    assert paths.job_file(JobId(1)).read_bytes() == b"new"


@pytest.mark.trio
async def test_updates_that_come_together_share_their_fsyncs(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    files = QueueFileCopies(paths)
    counting = FailingFsync(is_folder=True, failures_left=0).install(monkeypatch)

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as callers:
            for number in range(20):
                callers.start_soon(files.update, paths.job_file(JobId(number)), b"x")
            await wait_all_tasks_blocked(0.05)
            await nursery.start(files.run)
        nursery.cancel_scope.cancel()

    assert counting.calls == ["file"] * 20 + ["folder"]


@pytest.mark.trio
async def test_moves_of_one_call_share_their_fsyncs(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [JobId(number) for number in range(1, 11)]
    for job_id in jobs:
        paths.job_file(job_id).write_bytes(b"x")
    (paths.archive / "0").mkdir()
    counting = FailingFsync(is_folder=True, failures_left=0).install(monkeypatch)

    await QueueFileCopies(paths).rename([(paths.job_file(job_id), paths.archived_job_file(job_id)) for job_id in jobs])

    # the archive, where the folder of the jobs lies, that folder, and the queue
    assert counting.calls == ["folder"] * 3


@pytest.mark.trio
async def test_a_file_may_be_moved_on_in_one_call(paths: Paths) -> None:
    one, two, three = (paths.job_file(JobId(number)) for number in (1, 2, 3))
    one.write_bytes(b"x")

    await QueueFileCopies(paths).rename([(one, two), (two, three)])
    with pytest.raises(FileNotFoundError, match=r"^\[Errno 2\] there is no such file to move"):
        await QueueFileCopies(paths).rename([(three, one), (three, two)])

    assert [path.exists() for path in (one, two, three)] == [True, False, False]


@pytest.mark.parametrize(("folder", "mode"), [(0o750, 0o600), (0o2750, 0o640)])
def test_tokens_of_a_master_can_be_read_by_the_group_to_which_their_folder_was_given(
    paths: Paths, folder: int, mode: int
) -> None:
    """As by a rapid with a user of its own, which the master need not have."""
    paths.rapi.mkdir()
    paths.rapi.chmod(folder)

    upload(paths.rapi_tokens, FileUpload("rapi/tokens", Content(b"{}"), 0o600, "root", "root", None, None))

    assert stat.S_IMODE(paths.rapi_tokens.stat().st_mode) == mode


def test_an_upload_that_the_disk_refuses_leaves_the_old_file(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.config_data.write_bytes(b"old")
    FailingFsync(is_folder=False, failures_left=1).install(monkeypatch)
    file = FileUpload("config.data", Content(b"new"), None, "root", "root", None, None)

    with pytest.raises(OSError, match="Input/output error"):
        upload(paths.config_data, file)

    assert paths.config_data.read_bytes() == b"old"


def test_a_lock_of_another_program_is_waited_for_and_then_told(paths: Paths) -> None:
    with paths.queue_lock.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with (
            pytest.raises(TimeoutError, match=r"another process has held this lock for 0\.15 s"),
            FileLock(paths.queue_lock, 0.15).held(),
        ):
            pass
    with FileLock(paths.queue_lock).held():
        assert paths.queue_lock.exists()


@contextmanager
def queue_daemon(paths: Paths) -> Iterator[int]:
    """A process with the POSIX lock of the queue, as luxid; of another process, as those of one never conflict."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        fcntl.lockf(os.open(paths.queue_lock, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        os.write(writer, b"x")
        signal.pause()
    try:
        os.read(reader, 1)
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


@pytest.mark.trio
async def test_the_queue_of_a_running_queue_daemon_is_not_changed(paths: Paths) -> None:
    job, archived, folder = paths.job_file(JobId(1)), paths.archived_job_file(JobId(1)), paths.queue
    job.write_bytes(b"old")
    files = QueueFileCopies(paths)
    with queue_daemon(paths) as pid:
        changes: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: update(QueueFileCopies(paths), job, b"new"),
            lambda: files.rename([(job, archived)]),
            files.purge,
            lambda: files.remove([job]),
            lambda: files.set_aside([job]),
            lambda: files.set_drain_flag(True),
        )
        for change in changes:
            with pytest.raises(InUse, match=rf"the queue daemon runs on this node \(process {pid}\)"):
                await change()
        assert sorted(os.listdir(folder)) == ["archive", "job-1", "lock"]
        assert job.read_bytes() == b"old"

    await update(files, job, b"new")
    assert job.read_bytes() == b"new"


@pytest.mark.trio
async def test_what_is_set_aside_is_for_the_daemons_user_alone(paths: Paths) -> None:
    job = paths.job_file(JobId(1))
    job.write_bytes(b"{}")
    files = QueueFileCopies(paths)

    nothing = await files.set_aside([paths.job_file(JobId(2))])
    assert (nothing, paths.set_aside.exists()) == ([], False)
    (place,) = await files.set_aside([job])

    assert place.read_bytes() == b"{}"
    assert stat.S_IMODE(paths.set_aside.stat().st_mode) == 0o700


def test_a_queue_daemon_that_starts_waits_until_a_change_under_way_has_ended(paths: Paths) -> None:
    reader, writer = os.pipe()
    with FileLock(paths.queue_lock).held() as fd:
        child = os.fork()
        if child == 0:
            try:
                # else it would hold the flock itself
                os.close(fd)
                take_lock(paths)
                os.write(writer, b"x")
            finally:
                os._exit(0)
        wait_until(lambda: is_in_use(paths), what="the queue daemon has its own lock")
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
    os.set_blocking(reader, True)

    assert os.read(reader, 1) == b"x"

    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)


def is_in_use(paths: Paths) -> bool:
    with paths.queue_lock.open() as file:
        return record_lock_holder(file.fileno()) is not None


def test_a_lock_file_that_a_queue_daemon_removes_at_its_end_is_not_held_for_the_next_one(paths: Paths) -> None:
    lock = FileLock(paths.queue_lock, 5.0)
    removed = threading.Event()

    def change() -> bool:
        with lock.held_without_daemon():
            return removed.is_set() and paths.queue_lock.exists()

    with ThreadPoolExecutor(1) as pool, paths.queue_lock.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        changed = pool.submit(change)
        wait_until(lambda: opened(paths.queue_lock) == 2, what="the lock is waited for")
        paths.queue_lock.unlink()
        removed.set()
        fcntl.flock(holder, fcntl.LOCK_UN)

        assert changed.result()


def opened(path: Path) -> int:
    """How often this process has opened a file."""
    links = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and os.readlink(link) == str(path) for link in links)


def test_a_queue_of_another_version_is_refused(paths: Paths) -> None:
    paths.version_file.write_text("2\n")

    with pytest.raises(Exception, match="this program has version 1"):
        QueueFileCopies(paths).begin()
    assert not paths.serial_file.exists()
