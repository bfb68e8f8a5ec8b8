"""Log lines beside the job file (luxid.md 4.5; ours)."""

from pathlib import Path

import pytest

from common.ids import JobId
from common.queue import sidefiles
from common.queue.jobs import Job, JobOp, LogEntry
from common.queue.sidefiles import JobLogFile, add_lines, encode_line, read_all_lines, read_lines


def entry(serial: int, text: str = "x") -> LogEntry:
    return LogEntry(serial, (1, 2), "message", text)


def test_what_is_appended_is_read_from_any_offset(tmp_path: Path) -> None:
    path = tmp_path / "job-1"
    log = JobLogFile(path)
    log.append([encode_line(0, entry(1, "a\nb\r\u2028c")), encode_line(1, entry(2))])
    lines, offset = read_lines(path)
    log.append([encode_line(1, entry(3))])
    log.close()

    assert lines == [(0, entry(1, "a\nb\r\u2028c")), (1, entry(2))]
    assert read_lines(path, offset)[0] == [(1, entry(3))]


def test_half_a_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "job-1"
    line = encode_line(0, entry(1))
    path.write_bytes(line + line[:10])

    lines, offset = read_lines(path)

    assert (lines, offset) == ([(0, entry(1))], len(line))
    assert read_lines(path, offset) == ([], offset)


def test_a_line_longer_than_a_chunk_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidefiles, "CHUNK", 16)
    path = tmp_path / "job-1"
    path.write_bytes(b"".join(encode_line(0, entry(serial, "y" * 100)) for serial in range(1, 9)))

    assert [line.serial for _, line in read_all_lines(path)] == list(range(1, 9))


def test_what_is_no_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "job-1"
    path.write_bytes(b"\x00\x00\n[1]\n" + encode_line(0, entry(1)))

    assert read_all_lines(path) == [(0, entry(1))]
    assert read_all_lines(tmp_path / "none") == []


def test_a_job_gets_each_line_once_and_in_its_opcode() -> None:
    job = Job(JobId(1), (JobOp({}, log=(entry(1),)), JobOp({})))

    whole = add_lines(job, [(0, entry(1)), (0, entry(2)), (1, entry(3)), (7, entry(4))])

    assert [op.log for op in whole.ops] == [(entry(1), entry(2)), (entry(3),)]
    assert add_lines(whole, [(1, entry(2))]) is whole
