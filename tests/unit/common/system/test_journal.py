"""Records in systemd's journal: where standard error leads there, with fields, beside the log file."""

import logging
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.system import log
from common.system.log import get_log, is_journal, log_fds, record_of, rename_program, set_up_logging


@pytest.fixture
def journald(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A journal to which standard error of this process leads."""
    address = tmp_path / "journal"
    monkeypatch.setattr(log, "SOCKET", str(address))
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(address))
        receiver.setblocking(False)
        yield receiver
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


def test_standard_error_is_not_the_journal_unless_systemd_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    assert not is_journal()

    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    assert not is_journal()


def test_a_closed_stream_is_not_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")

    assert not is_journal(1 << 20)


def test_a_value_of_several_lines_is_sent_with_its_length() -> None:
    assert (
        record_of({"MESSAGE": "a\nb", "PRIORITY": "3"}) == b"MESSAGE\n" + struct.pack("<Q", 3) + b"a\nb\nPRIORITY=3\n"
    )


def test_a_record_has_priority_event_and_fields(journald: socket.socket, tmp_path: Path) -> None:
    set_up_logging("luxid", path=tmp_path / "log")

    get_log("test").warning("job.delayed", job=17, reason="no room")

    fields = dict(line.split("=", 1) for line in journald.recv(9999).decode().splitlines())
    assert fields == {
        "MESSAGE": 'job.delayed job=17 reason="no room"',
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "gantry-luxid",
        "GANTRY_EVENT": "job.delayed",
        "GANTRY_JOB": "17",
        "GANTRY_REASON": "no room",
    }
    assert (tmp_path / "log").read_text().endswith(' luxid warning job.delayed job=17 reason="no room"\n')


def test_a_job_process_writes_under_its_own_name_and_keeps_the_socket(journald: socket.socket, tmp_path: Path) -> None:
    set_up_logging("forkserver", path=tmp_path / "log")

    rename_program("job")
    get_log("test").info("job.begun", job=17)

    assert b"SYSLOG_IDENTIFIER=gantry-job\n" in journald.recv(9999)
    assert len(log_fds()) == 2


def test_a_journal_that_is_away_is_no_obstacle(journald: socket.socket, tmp_path: Path) -> None:
    set_up_logging("luxid", path=tmp_path / "log")
    journald.close()

    get_log("test").info("queue.read", jobs=3)

    assert (tmp_path / "log").read_text().endswith(" luxid info queue.read jobs=3\n")


def test_what_goes_to_standard_error_is_not_sent_twice(
    journald: socket.socket, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("luxid", path=None)

    get_log("test").info("queue.read", jobs=3)

    with pytest.raises(BlockingIOError):
        journald.recv(9999)
