"""The rehearsal of the fork server: it is the whole play, and leaves nothing behind. DESIGN sections 7 and 9."""

import gc
import os
import threading
from pathlib import Path

import pytest

from common.paths import Paths
from common.queue.jobs import JobState
from common.settings import Settings
from daemons.jobproc.forkserver.warmup import rehearse
from tests.support.daemons.forkserver import JobHost


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return Settings(paths)


def test_rehearsed_job_succeeds(settings: Settings) -> None:
    job = rehearse(settings)

    assert job is not None
    assert job.state is JobState.SUCCESS
    assert job.ops[0].exec_at is not None


def test_rehearsal_leaves_no_file_thread_or_descriptor(settings: Settings) -> None:
    rehearse(settings)
    root = settings.paths.run.parent
    # what earlier tests have left in this process may go meanwhile, so only what comes is counted
    gc.collect()
    files, threads, descriptors = sorted(root.rglob("*")), set(threading.enumerate()), descriptors_open()

    rehearse(settings)

    assert sorted(root.rglob("*")) == files
    assert set(threading.enumerate()) - threads == set()
    assert descriptors_open() - descriptors == set()
    assert not [path for path in root.rglob("*") if path.is_file()]


def descriptors_open() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_rehearsal_that_was_killed_leaves_nothing_for_long(settings: Settings) -> None:
    left = settings.paths.run / "rehearsal-abc"
    (left / "lib/queue").mkdir(parents=True)
    (left / "lib/queue/job-1").touch()

    rehearse(settings)

    assert not left.exists()


def test_rehearsal_without_room_is_left_out(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.paths.run.rename(settings.paths.run.with_name("elsewhere"))

    assert rehearse(settings) is None
    assert "rehearsal.failed" in caplog.text


def test_log_of_the_jobs_knows_nothing_of_the_rehearsal(host: JobHost) -> None:
    job = host.run(1, {"OP_ID": "OP_TEST_DUMMY"})

    assert job.state is JobState.SUCCESS
    assert host.log().count("job.ended") == 1
