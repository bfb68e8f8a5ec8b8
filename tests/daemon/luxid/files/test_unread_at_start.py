"""Files that cannot be read when luxid starts are waited for: nothing is made of what was not read (DESIGN 11)."""

import errno
import os
from pathlib import Path

import pytest
import trio

from common.ids import JobId
from common.paths import Paths
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from daemons.luxid import main
from daemons.luxid.files import loading
from daemons.luxid.files.loading import load_queue

DUMMY = JobOp({"OP_ID": "OP_TEST_DUMMY"})


class FailingDisk:
    """Gives EIO for a file the first `failures` times."""

    def __init__(self, path: Path, failures: int) -> None:
        self._path = path
        self.failures = failures
        self._read = loading._read

    def read(self, path: str) -> bytes:
        if Path(path) == self._path and self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(path))
        return self._read(path)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Of a queue with two jobs."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    for number in (1, 2):
        paths.job_file(number).write_bytes(encode_job(Job(JobId(number), (DUMMY,))))
    return paths


def test_a_file_that_cannot_be_read_is_read_again_with_growing_pauses(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_read", FailingDisk(paths.job_file(1), 8).read)
    pauses: list[float] = []

    found = load_queue(paths, pauses.append)

    assert [each.job.job_id for each in found.jobs] == [1, 2]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert os.listdir(paths.damaged) == []


def test_a_file_that_is_moved_away_is_waited_for_no_longer(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_read", FailingDisk(paths.job_file(1), 1).read)

    found = load_queue(paths, lambda _: paths.job_file(1).unlink())

    assert [each.job.job_id for each in found.jobs] == [2]


@pytest.mark.trio
async def test_who_waits_for_a_file_can_be_ended(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FailingDisk(paths.job_file(1), 10**9)
    monkeypatch.setattr(loading, "_read", disk.read)
    async with trio.open_nursery() as nursery:

        async def load() -> None:
            await trio.to_thread.run_sync(load_queue, paths, main._pause_in_thread)

        nursery.start_soon(load)
        while disk.failures == 10**9:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert disk.failures < 10**9


def test_a_key_that_cannot_be_read_is_not_forgotten(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    key = paths.submissions / "key"
    key.write_bytes(b"{}")
    paths.serial_file.write_text("2\n")

    read = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path != key:
            return read(path)
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        with pytest.raises(OSError, match="Input/output error"):
            load_queue(paths)

    assert key.exists()
