"""A disk that refuses for a while does not change what becomes of a job (DESIGN section 11, "an error of the disk")."""

import errno
import os
from pathlib import Path

import pytest

from common.durable import durably as durably_module
from common.durable.atomicfile import write_file
from common.ids import JobId
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import Job, JobOp, JobState
from daemons.jobproc import jobrecord
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.life import _Life
from tests.support.fakes.failing import FailingFsync, count_renames


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobRecord:
    """A job whose first opcode of two runs."""
    monkeypatch.setattr(durably_module, "RETRY_S", 0)
    monkeypatch.setattr(jobrecord, "_RETRY_S", 0)
    path = tmp_path / "job-7"
    write_file(path, encode_job(Job(JobId(7), (JobOp({"OP_ID": "OP_TEST_DUMMY"}),) * 2)))
    record = JobRecord.load(path, tmp_path / "log-7", livelock="/run/job", process_id=99)
    record.begin_running(0)
    return record


def on_disk(tmp_path: Path) -> Job:
    return decode_job((tmp_path / "job-7").read_bytes(), "job-7")


def test_a_success_that_others_may_have_seen_is_never_written_over(
    tmp_path: Path, record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=3).install(monkeypatch)
    renames = count_renames(monkeypatch)

    record.succeed(0, "done")

    assert renames == ["job-7"]
    assert failing.calls == ["file", *["folder"] * 4]
    assert (record.job.ops[0].state, on_disk(tmp_path).ops[0].state) == (JobState.SUCCESS, JobState.SUCCESS)


def test_the_last_end_leaves_its_folder_to_the_queue_daemon_unless_a_step_follows(
    record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.succeed(0, "done")
    record.begin_running(1)
    failing = FailingFsync(is_folder=True, failures_left=2).install(monkeypatch)

    record.succeed(1, "done")
    assert failing.calls == ["file"]

    record.make_durable()
    assert failing.calls == ["file", *["folder"] * 3]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_an_end_that_the_disk_refuses_is_written_anew_until_it_takes_it(
    tmp_path: Path, record: JobRecord, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    failing = FailingFsync(is_folder=False, failures_left=2, number=number).install(monkeypatch)

    record.succeed(0, "done")

    # the whole content each time: after an fsync that failed nobody knows what the kernel still has of it
    assert failing.calls == ["file", "file", "file", "folder"]
    assert on_disk(tmp_path).ops[0].result == "done"
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == []


def test_an_end_that_finds_no_descriptor_is_written_when_there_is_one(
    tmp_path: Path, record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.open, iter(range(3))

    def scarce(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_CREAT and next(left, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", scarce)

    record.succeed(0, "done")

    assert on_disk(tmp_path).ops[0].state is JobState.SUCCESS


def test_what_follows_the_end_begins_when_the_end_is_durable(
    record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.succeed(0, "done")
    record.begin_running(1)
    record.succeed(1, "done")
    failing = FailingFsync(is_folder=True, failures_left=2).install(monkeypatch)
    life = object.__new__(_Life)
    life._record = record
    life._afterwards = [lambda: failing.calls.append("the node forgets the command")]

    life._do_afterwards()

    assert failing.calls == ["folder", "folder", "folder", "the node forgets the command"]
