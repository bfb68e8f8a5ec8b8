"""The job process's own file: transitions, durability, log lines. luxid.md 3.1 and 4."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest

from common.durable.atomicfile import FileWrite, StagedFiles, stage_files, write_file
from common.errors import ConfigVerifyError, Conflict, ExecutionError
from common.ids import JobId
from common.queue.jobfile import decode_job, encode_job
from common.queue.jobs import CANCELED_TEXT, Job, JobOp, JobState
from common.queue.sidefiles import read_all_lines
from daemons.jobproc import jobrecord
from daemons.jobproc.jobrecord import JobRecord, result_of
from tests.support.wait import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a queued job of two opcodes."""
    path = tmp_path / "job-7"
    ops = (JobOp({"OP_ID": "OP_TEST_DUMMY"}), JobOp({"OP_ID": "OP_TEST_DUMMY"}))
    write_file(path, encode_job(Job(JobId(7), ops)))
    return path


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "log-7"


@pytest.fixture
def record(path: Path, log_path: Path) -> Iterator[JobRecord]:
    record = JobRecord.load(path, log_path, livelock="/run/job", process_id=99)
    yield record
    record.close()


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths written, one for each write."""
    written: list[Path] = []
    real = stage_files

    def counting(writes: Sequence[FileWrite]) -> StagedFiles:
        written.extend(write.path for write in writes)
        return real(writes)

    monkeypatch.setattr(jobrecord, "stage_files", counting)
    return written


def on_disk(path: Path) -> Job:
    return decode_job(path.read_bytes(), path.name)


def test_loading_writes_nothing_and_the_first_change_writes_the_process(path: Path, record: JobRecord) -> None:
    assert on_disk(path).process_id is None

    record.begin_running(0)

    assert (on_disk(path).process_id, on_disk(path).livelock) == (99, "/run/job")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.begin_waiting(0),
        lambda record: record.begin_running(0),
        lambda record: record.fail(ValueError("x")),
        lambda record: record.cancel(),
        lambda record: record.set_priority(4),
    ],
)
def test_each_change_is_one_write(
    path: Path, record: JobRecord, writes: list[Path], change: Callable[[JobRecord], None]
) -> None:
    change(record)

    assert writes == [path]
    assert on_disk(path).ops == record.job.ops


def test_job_ends_with_its_last_opcode(path: Path, record: JobRecord) -> None:
    record.begin_running(0)
    record.succeed(0, 1)
    assert on_disk(path).end_at is None

    record.begin_running(1)
    record.succeed(1, 2)

    assert on_disk(path).state is JobState.SUCCESS
    assert on_disk(path).end_at == on_disk(path).ops[1].end_at is not None


def test_an_end_is_when_the_work_was_over_not_when_it_is_written(
    path: Path, record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(((100, 0), (200, 0), (300, 0)))
    monkeypatch.setattr(jobrecord, "_now", lambda: next(clock))
    record.begin_waiting(0)
    record.note_over()

    record.fail(ExecutionError("no"))

    assert [op.end_at for op in on_disk(path).ops] == [(200, 0), (200, 0)]
    # only that end
    assert record._instant() == (300, 0)


def test_canceled_opcodes_have_a_plain_text(path: Path, record: JobRecord) -> None:
    record.begin_waiting(0)

    record.cancel()

    assert [op.result for op in on_disk(path).ops] == [CANCELED_TEXT, CANCELED_TEXT]


def test_result_that_is_no_json_changes_nothing(path: Path, record: JobRecord) -> None:
    record.begin_running(0)
    before = path.read_bytes()

    with pytest.raises(ExecutionError, match="the result is not JSON"):
        record.succeed(0, {1, 2})

    assert path.read_bytes() == before
    record.succeed(0, None)
    assert on_disk(path).ops[0].state is JobState.SUCCESS


def test_impossible_event_is_refused_and_nothing_written(record: JobRecord, writes: list[Path]) -> None:
    with pytest.raises(Conflict):
        record.succeed(0, None)

    assert writes == []


def test_log_lines_go_along_with_the_next_change(path: Path, record: JobRecord, writes: list[Path]) -> None:
    record.begin_running(0)
    for number in range(1000):
        record.log(0, f"line {number}")
    record.succeed(0, None)

    assert len(writes) <= 3
    assert [entry.message for entry in on_disk(path).ops[0].log] == [f"line {number}" for number in range(1000)]


def test_a_log_line_is_told_at_once_and_does_not_rewrite_the_file(
    record: JobRecord, log_path: Path, writes: list[Path]
) -> None:
    record.begin_running(0)

    record.log(0, "a")

    assert [entry.message for _, entry in read_all_lines(log_path)] == ["a"]
    assert len(writes) == 1


def test_many_log_lines_are_appended_together(record: JobRecord, log_path: Path, writes: list[Path]) -> None:
    record.begin_running(0)
    for number in range(10_000):
        record.log(0, f"line {number}")

    wait_until(lambda: len(read_all_lines(log_path)) == 10_000, what="all lines are appended")
    assert [entry.serial for _, entry in read_all_lines(log_path)] == list(range(1, 10_001))
    assert len(writes) == 1


def test_a_line_is_in_the_log_before_it_is_in_the_file(
    record: JobRecord, log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = stage_files

    def looking(writes: Sequence[FileWrite]) -> StagedFiles:
        seen.append(len(read_all_lines(log_path)))
        return real(writes)

    monkeypatch.setattr(jobrecord, "stage_files", looking)
    record.log(0, "a")
    record.log(0, "b")

    record.begin_running(0)

    assert seen == [2]


def test_a_log_has_a_limit_and_says_so(
    path: Path, record: JobRecord, log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobrecord, "LOG_LIMIT", 3)
    for number in range(10):
        record.log(0, f"line {number}")
    record.begin_running(0)

    last = "the log of a job holds 3 lines; all after this one are left out"
    assert [entry.message for entry in on_disk(path).ops[0].log] == ["line 0", "line 1", last]
    assert len(read_all_lines(log_path)) == 3


def test_lines_of_a_process_that_died_are_taken_over(path: Path, record: JobRecord, log_path: Path) -> None:
    record.log(0, "a")
    with log_path.open("ab") as file:
        file.write(b'[0,2,[1,1],"mess')

    later = JobRecord.load(path, log_path, livelock="/run/job", process_id=100)
    later.log(1, "b")
    later.begin_running(0)

    assert [(entry.serial, entry.message) for op in on_disk(path).ops for entry in op.log] == [(1, "a"), (2, "b")]
    assert [entry.serial for _, entry in read_all_lines(log_path)] == [1, 2]


def test_serials_go_on_where_an_earlier_process_ended(path: Path, log_path: Path, record: JobRecord) -> None:
    record.begin_running(0)
    record.log(0, "a")
    record.succeed(0, None)

    later = JobRecord.load(path, log_path, livelock="/run/job", process_id=100)
    later.log(1, "b")
    later.begin_running(1)

    assert [entry.serial for op in on_disk(path).ops for entry in op.log] == [1, 2]


def test_failed_write_changes_nothing(path: Path, record: JobRecord) -> None:
    before = record.job
    path.parent.rename(path.parent.with_name("moved"))

    with pytest.raises(FileNotFoundError):
        record.begin_running(0)

    assert record.job is before


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ExecutionError("x"), ["OpExecError", ["x"]]),
        (ConfigVerifyError("bad", ["a"]), ["ConfigVerifyError", ["bad", ["a"]]]),
        (KeyError("k"), ["OpExecError", ["KeyError: 'k'"]]),
        (MemoryError(), ["OpExecError", ["MemoryError: no further details"]]),
        (OSError("f\udcff"), ["OpExecError", ["OSError: f?"]]),
    ],
)
def test_error_becomes_a_result(error: BaseException, result: list[object]) -> None:
    """luxid.md 4.4"""
    assert result_of(error) == result


def test_a_file_that_another_process_has_by_now_is_not_written_over(path: Path, record: JobRecord) -> None:
    """The queue was lost and begun anew, or another master has taken the job up."""
    record.begin_waiting(0)
    other = attrs.evolve(decode_job(path.read_bytes(), "job"), livelock="/run/another")
    write_file(path, encode_job(other))
    content = path.read_bytes()

    with pytest.raises(OSError, match="it is another job's, or another process has it"):
        record.begin_running(0)

    assert path.read_bytes() == content


def test_a_file_that_was_put_back_is_still_this_process_s(path: Path, record: JobRecord) -> None:
    record.begin_waiting(0)
    write_file(path, path.read_bytes())

    record.begin_running(0)

    assert decode_job(path.read_bytes(), "job").ops[0].state is JobState.RUNNING
