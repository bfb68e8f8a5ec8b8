"""The record of removals is durable before the first file is gone (DESIGN 11)."""

import errno
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio

from common.durable.atomicfile import FileWrite, write_files
from common.ids import JobId
from common.paths import Paths
from daemons.luxid.core.copies.removals import Removals
from daemons.luxid.files import queuefiles
from daemons.luxid.files.queuefiles import QueueFiles
from daemons.luxid.removals import begin_removals, read_removals
from tests.support.fakes.copies import FakeCopies

pytestmark = pytest.mark.trio


class Disk:
    """Writes, or refuses with this error."""

    def __init__(self) -> None:
        self.error = 0

    def write(self, writes: Sequence[FileWrite]) -> None:
        if self.error:
            raise OSError(self.error, "refused by the test")
        write_files(writes)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    begin_removals(paths, JobId(3))
    return paths


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def copies() -> FakeCopies:
    return FakeCopies()


@pytest.fixture
async def files(paths: Paths, disk: Disk, copies: FakeCopies) -> AsyncIterator[QueueFiles]:
    files = QueueFiles(paths, copies, disk.write)
    async with trio.open_nursery() as nursery:
        await nursery.start(files.run)
        yield files
        nursery.cancel_scope.cancel()


def _made(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("a job")
    return path


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_nothing_is_removed_that_cannot_be_recorded(
    paths: Paths, disk: Disk, files: QueueFiles, error: int
) -> None:
    job, waits = _made(paths.archived_job_file(7)), _made(paths.waits_file(7))
    disk.error = error

    with pytest.raises(OSError, match="refused by the test"):
        await files.remove([job])
    with pytest.raises(OSError, match="refused by the test"):
        await files.discard([waits])

    assert job.exists()
    assert waits.exists()
    assert read_removals(paths) == Removals(3)
    disk.error = 0
    await files.remove([job])
    await files.discard([waits])
    assert read_removals(paths) == Removals(3).with_jobs([7]).with_waits([0])
    assert not job.exists()
    assert not waits.exists()


async def test_a_crash_before_the_removal_leaves_a_file_that_is_named_and_removed_again(
    paths: Paths, files: QueueFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _made(paths.job_file(7))
    with monkeypatch.context() as patched:
        patched.setattr(queuefiles, "remove_files", _refuse)
        with pytest.raises(OSError, match="refused by the test"):
            await files.remove([job])

    assert 7 in read_removals(paths).jobs
    assert job.exists()
    record = paths.removals.stat().st_ino
    await files.remove([job])
    assert not job.exists()
    # it was not written again
    assert paths.removals.stat().st_ino == record


async def test_the_record_reaches_other_nodes_before_they_hear_of_the_removal(
    paths: Paths, files: QueueFiles, copies: FakeCopies
) -> None:
    await files.remove([_made(paths.archived_job_file(7))])

    assert [name for _, name in copies.told] == ["removals", "job-7"]


async def test_an_ordinary_submission_and_its_refusal_write_no_record(paths: Paths, files: QueueFiles) -> None:
    before = paths.removals.stat()

    await files.replace([FileWrite(paths.job_file(8), b"{}")])
    await files.discard([_made(paths.submissions / "batch-8-2"), _made(paths.output_file(8))])
    await files.remove([paths.job_file(8)], were_jobs=False)

    assert paths.removals.stat() == before


def _refuse(_: Sequence[Path]) -> None:
    raise OSError(errno.EIO, "refused by the test")
