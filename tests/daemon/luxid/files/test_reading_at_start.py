"""What luxid does for each file of a long queue when it starts."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.paths import Paths
from common.queue import jobs as queuejobs
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.recovery import Fate
from daemons.luxid.files import loading
from daemons.luxid.files.loading import load_queue

JOBS = 20


def put_job(paths: Paths, number: int, *, size: int = 0) -> None:
    """Queue a job; its file has at least so many bytes."""
    job = Job(JobId(number), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),))
    # space before JSON is allowed
    paths.job_file(number).write_bytes(encode_job(job).rjust(size))


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return paths


def test_a_small_file_is_read_by_one_call(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, JOBS + 1):
        put_job(paths, number)
    calls: list[str] = []
    for name in ("open", "fstat", "stat", "lstat", "read", "close"):
        monkeypatch.setattr(os, name, counting(name, calls))

    found = load_queue(paths)

    assert [each.job.job_id for each in found.jobs] == list(range(1, JOBS + 1))
    assert calls.count("read") == JOBS
    # besides, folders are looked at
    assert len(calls) < 4 * JOBS


@pytest.mark.parametrize("size", [8191, 8192, 8193, 16384, 100_000])
def test_a_large_file_is_read_to_its_end(paths: Paths, size: int) -> None:
    number = 7
    put_job(paths, number, size=size)

    found = load_queue(paths)

    assert [each.job.job_id for each in found.jobs] == [number]


def counting(name: str, calls: list[str]) -> Any:
    real = getattr(os, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return real(*args, **kwargs)

    return counted


def test_an_input_is_looked_at_once_when_its_job_is_taken_in(paths: Paths) -> None:
    for number in range(1, JOBS + 1):
        op_input: dict[str, Any] = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true", str(number)], "reason": []}
        if number == JOBS:
            op_input["depends"] = [[1, []]]
        paths.job_file(number).write_bytes(encode_job(Job(JobId(number), (JobOp(op_input),))))
    found = load_queue(paths)
    queue = JobQueue(10, 10, lambda _: None)
    before = queuejobs._read.cache_info().misses

    queue.add_all(each.job for each in found.jobs)

    assert queuejobs._read.cache_info().misses - before == JOBS
    assert queue.phase(JobId(JOBS)) is Phase.BLOCKED


def hold_livelock(paths: Paths, number: int) -> tuple["subprocess.Popen[str]", str]:
    """Another process that holds a job's livelock until its input ends."""
    code = (
        "import sys; from pathlib import Path; from common.system.livelock import Livelock; "
        f"print(Livelock.create(Path({str(paths.livelocks)!r}), 'job_{number:06d}').path, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_process_that_has_written_nothing_yet_is_known_by_its_livelock(paths: Paths) -> None:
    put_job(paths, 1)
    put_job(paths, 2)
    process, livelock = hold_livelock(paths, 2)
    with process:
        lives = load_queue(paths).jobs
        process.kill()
    dead = load_queue(paths).jobs

    assert [each.fate for each in lives] == [Fate.CONTINUE, Fate.ALIVE]
    assert (lives[1].job.livelock, lives[1].job.process_id) == (livelock, process.pid)
    assert os.path.exists(livelock)
    assert [(each.fate, each.job.livelock) for each in dead] == [(Fate.CONTINUE, None)] * 2


def test_a_job_that_ends_while_the_queue_is_read_is_not_taken_for_a_queued_one(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(paths, 1)
    process, _ = hold_livelock(paths, 1)
    read = loading._read

    def end_after_reading(path: str) -> bytes:
        content = read(path)
        process.kill()
        process.wait()
        return content

    monkeypatch.setattr(loading, "_read", end_after_reading)
    with process:
        [found] = load_queue(paths).jobs

    # its file is read again when it is found dead
    assert found.fate is Fate.ALIVE


def test_livelocks_that_cannot_be_listed_are_listed_again(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    put_job(paths, 1)
    process, livelock = hold_livelock(paths, 1)
    left = iter(range(3))

    def failing(folder: Path) -> dict[int, str]:
        if next(left, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return {1: livelock}

    monkeypatch.setattr(loading, "livelocks_of_jobs", failing)
    pauses: list[float] = []
    with process:
        [found] = load_queue(paths, pauses.append).jobs
        process.kill()

    assert found.fate is Fate.ALIVE
    assert pauses == [0.1, 0.2, 0.4]
