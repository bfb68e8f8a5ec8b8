"""What luxid does for each file of a long queue when it starts."""

import os
from pathlib import Path
from typing import Any

import pytest

from common.ids import JobId
from common.paths import Paths
from common.queue import jobfile
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
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
    before = jobfile._read.cache_info().misses

    queue.add_all(each.job for each in found.jobs)

    assert jobfile._read.cache_info().misses - before == JOBS
    assert queue.phase(JobId(JOBS)) is Phase.BLOCKED
